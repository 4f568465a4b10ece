/**
 * One run: the product's processes under load while things are broken, phase
 * by phase; then rest, and the rules. Tells what it does, and counts.
 */
import { Effect, Exit, ManagedRuntime, Redacted, Scope } from "effect"
import { Redis } from "ioredis"
import { randomBytes } from "node:crypto"
import { rmSync } from "node:fs"
import * as Database from "../../adapters/postgres/Database.ts"
import * as PrivatePostgres from "../../adapters/postgres/PrivatePostgres.ts"
import * as PrivateRedis from "../../adapters/redis/PrivateRedis.ts"
import { chance, call, sleep, type Members } from "../Api.ts"
import * as Cluster from "../Cluster.ts"
import { found } from "../Founding.ts"
import { Clients } from "./Clients.ts"
import { rules, type Fault } from "./Invariants.ts"
import { MailServer, Receiver } from "./Witnesses.ts"

/** What is broken in a run, and how often. */
export interface Plan {
  readonly queue: "postgres" | "redis"
  readonly kills: number
  readonly postgresRestarts: number
  readonly terminations: number
  readonly redisFlushes: number
  readonly redisKills: number
  /** Milliseconds without Redis, once; 0: never. */
  readonly redisAbsenceMs: number
  /** Milliseconds for which a worker stands still, once; 0: never. Past its leases, if it is over a minute. */
  readonly workerStoppedMs: number
  readonly migrates: boolean
  readonly senders: number
  /** The service is back when a message that is sent after the fault is taken; this late at most. */
  readonly backWithinMs: number
}

export interface Outcome {
  readonly violations: ReadonlyArray<string>
  /** Milliseconds until the service took a message again, and until every process of it did, per fault. */
  readonly returns: ReadonlyArray<{ readonly fault: string; readonly ms: number; readonly allMs: number }>
  readonly counts: Readonly<Record<string, number>>
}

type Tell = (line: string) => void

export const run = async (plan: Plan, tell: Tell): Promise<Outcome> => {
  const scope = Scope.makeUnsafe()
  const open = <A, E>(self: Effect.Effect<A, E, Scope.Scope>) => Effect.runPromise(Effect.provideService(self, Scope.Scope, scope))
  const mailServer = new MailServer()
  const receivers = new Map<string, Receiver>()
  let cluster: Cluster.Cluster | null = null
  let holds = false
  try {
    const postgres = await open(PrivatePostgres.open({ isDurable: true }))
    const redis = plan.queue === "redis" ? await open(PrivateRedis.open()) : null
    await Effect.runPromise(postgres.started)
    const databaseUrl = Redacted.value(postgres.url("postgres"))
    const variables = {
      MAILROOM_MODE: "development",
      MAILROOM_DATABASE_URL: databaseUrl,
      MAILROOM_SEALING_KEYS: `1:${randomBytes(32).toString("base64")}`,
      MAILROOM_SMTP_HOST: "127.0.0.1",
      MAILROOM_SMTP_PORT: String(await mailServer.listen()),
      MAILROOM_SMTP_TLS: "none",
      MAILROOM_IP_REQUESTS_PER_MINUTE: "1000000",
      MAILROOM_WEBHOOK_ALLOW_HTTP: "true",
      MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "127.0.0.0/8",
      MAILROOM_WEBHOOK_BACKOFF: "1",
      ...(redis === null ? {} : { MAILROOM_REDIS_URL: Redacted.value(redis.url), MAILROOM_QUEUE: "redis" })
    }
    await Cluster.run(["migrate"], variables)
    cluster = await Cluster.start({ serves: 2, workers: 2 }, variables)
    const running = cluster
    tell(`2 serve and 2 worker processes over Postgres${redis === null ? "" : " and Redis"}; their logs, until all rules hold: ${running.folder}`)

    const database = ManagedRuntime.make(Database.layer({ url: Redacted.make(databaseUrl), connectionsMax: 2 }))
    const query = (text: string) =>
      database.runPromise(Effect.flatMap(Database.Database, ({ sql }) => sql.unsafe<Members>(text)))
    const callers = [...(await found(variables, "one.example")), ...(await found(variables, "two.example"))]
    const clients = new Clients(callers, () => running.baseUrls)
    for (const [place, caller] of callers.entries()) {
      const receiver = new Receiver(place === 0 ? 0 : 0.15) // who never fails is sent to straight from the log
      await receiver.listen()
      const made = await call(running.baseUrls[0]!, caller.apiKey, "POST", "/v1/webhook-endpoints", { body: { url: receiver.url, eventTypes: ["*"] } })
      if (made?.status !== 201) throw new Error(`no endpoint for ${caller.name}: ${made?.status} ${JSON.stringify(made?.json)}`)
      receiver.secret = String(made.json["secret"])
      receivers.set(String(made.json["endpoint"]?.id ?? made.json["id"]), receiver)
    }

    const endedBefore = Cluster.endedByThemselves.length
    let disruptions = 0
    const faults: Array<Fault> = []
    const returns: Array<{ fault: string; ms: number; allMs: number }> = []
    /** Breaks something, and waits until the service is back. */
    const broken = async (fault: string, breaks: () => Promise<void> | void) => {
      const from = Date.now()
      await breaks()
      disruptions += 1
      const begin = performance.now()
      const passed = () => Math.round(performance.now() - begin)
      // The senders wait up to 15 s for an answer; this one asks anew.
      let ms: number | null = null
      for (;;) {
        const { byAny, byAll } = await clients.probe(callers[disruptions % callers.length]!)
        if (byAny) ms ??= passed()
        if (byAll || passed() > 60_000) break
        await sleep(50)
      }
      faults.push({ from, until: Date.now() })
      returns.push({ fault, ms: ms ?? passed(), allMs: passed() })
    }

    clients.start(plan.senders)
    await sleep(1_500)
    // What goes wrong without a fault is seen before the first.
    for (let waited = 0; mailServer.handed.length < 10; waited += 50) {
      if (waited > 60_000) throw new Error("no mail goes out, and nothing is broken yet")
      await sleep(50)
    }
    const processes = [...running.serves, ...running.workers]
    for (let number = 1; number <= plan.kills; number++) {
      const victim = processes[Math.floor(chance() * processes.length)]!
      await broken(`kill -9 ${victim.name.split("-")[0]!}`, () => victim.kill())
      await sleep(chance() * 1_200)
      if (number % 10 === 0 || number === plan.kills) tell(`${number} of ${plan.kills} kills, ${clients.sendings.length} sends`)
    }
    for (let number = 1; number <= plan.postgresRestarts; number++) {
      await broken("Postgres stopped immediately, and started", async () => {
        await Effect.runPromise(postgres.stop("immediate"))
        await sleep(500)
        await Effect.runPromise(postgres.start)
      })
      tell(`Postgres stopped and started, ${number} of ${plan.postgresRestarts}`)
      await sleep(1_000)
    }
    for (let number = 1; number <= plan.terminations; number++) {
      await broken("backends terminated", async () => {
        await query(`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'`).catch(() => [])
      })
      await sleep(300)
    }
    if (plan.terminations > 0) tell(`backends terminated ${plan.terminations} times`)
    if (redis !== null) await breakRedis(redis, plan, broken, tell)
    if (plan.workerStoppedMs > 0) {
      const [worker] = running.workers
      await broken("worker stopped past its leases, and continued", async () => {
        worker!.signal("SIGSTOP")
        await sleep(plan.workerStoppedMs)
        worker!.signal("SIGCONT")
      })
      tell(`a worker stood still for ${plan.workerStoppedMs / 1_000} s`)
    }
    if (plan.migrates) {
      await broken("a further migration under load", async () => {
        await query(`alter table mailroom.message add column added_later text`)
        await query(`insert into mailroom.migration (name, applied_ms) values ('9999_added_later', 0)`)
      })
      await broken("kill -9 after it", () => running.serves[0]!.kill())
      tell("a further migration was applied, and a process of this version started on it")
    }

    await clients.stop()
    tell(`${clients.sendings.length} sends; waiting until nothing is due`)
    const rested = await rest(query)
    const violations = rested ? [] : ["the service does not come to rest"]
    const seen = { clients, callers, receivers, mailServer, disruptions, faults, query }
    for (const { name, check } of rules) {
      const cases = await check(seen)
      tell(`${cases.length === 0 ? "ok  " : "FAIL"} ${name}${cases.length === 0 ? "" : `: ${cases.length}, such as ${cases[0]}`}`)
      violations.push(...cases.map((one) => `${name}: ${one}`))
    }
    // One that starts while the database is away says so and ends, for its supervisor to try again. Any other end is to be seen.
    const ended = Cluster.endedByThemselves.slice(endedBefore)
    for (const one of ended) tell(one)
    const slow = returns.filter(({ ms }) => ms > plan.backWithinMs)
    violations.push(...slow.map(({ fault, ms }) => `back only ${ms} ms after: ${fault}`))
    await database.dispose()
    holds = violations.length === 0
    return { violations, returns, counts: countsOf(clients, receivers, mailServer, disruptions, ended.length) }
  } finally {
    await cluster?.stop()
    if (cluster !== null && holds) rmSync(cluster.folder, { recursive: true }) // else its logs say what went wrong
    for (const receiver of receivers.values()) receiver.close()
    await mailServer.close()
    await Effect.runPromise(Scope.close(scope, Exit.void))
  }
}

const breakRedis = async (
  redis: PrivateRedis.PrivateRedis,
  plan: Plan,
  broken: (fault: string, breaks: () => Promise<void>) => Promise<void>,
  tell: Tell
) => {
  for (let number = 0; number < plan.redisFlushes; number++) {
    await broken("Redis flushed", async () => {
      const client = new Redis(Redacted.value(redis.url))
      await client.flushall()
      client.disconnect()
    })
    await sleep(500)
  }
  for (let number = 0; number < plan.redisKills; number++) {
    await broken("Redis killed, and started with nothing", async () => {
      await Effect.runPromise(redis.kill)
      await sleep(300)
      await Effect.runPromise(redis.start)
    })
    await sleep(500)
  }
  if (plan.redisAbsenceMs > 0) {
    await broken("Redis absent", () => Effect.runPromise(redis.kill))
    await sleep(plan.redisAbsenceMs)
    await broken("Redis back after its absence", () => Effect.runPromise(redis.start))
  }
  tell(`Redis flushed ${plan.redisFlushes} times, killed ${plan.redisKills} times${plan.redisAbsenceMs > 0 ? `, away for ${plan.redisAbsenceMs / 1_000} s` : ""}`)
}

/** True when nothing is due any more; false when it does not become less for a minute. */
const rest = async (query: (text: string) => Promise<ReadonlyArray<Members>>): Promise<boolean> => {
  let [least, since] = [Number.POSITIVE_INFINITY, performance.now()]
  for (;;) {
    const [row] = await query(`
      select
        (select count(*) from mailroom.message where next_attempt_ms is not null or poll_ms is not null)
        + (select count(*) from mailroom.delivery where next_attempt_ms is not null)
        + (select coalesce(sum(h.position - r.position), 0) from mailroom.log_head h join mailroom.relay r using (shard)) as open`)
    const open = Number(row?.["open"])
    if (open === 0) return true
    if (open < least) [least, since] = [open, performance.now()]
    if (performance.now() - since > 60_000) return false
    await sleep(500)
  }
}

const countsOf = (clients: Clients, receivers: ReadonlyMap<string, Receiver>, mailServer: MailServer, disruptions: number, ended: number) => ({
  faults: disruptions,
  sends: clients.sendings.length,
  accepted: clients.sendings.filter(({ ids }) => ids.size > 0).length,
  replays: clients.replays,
  refused: clients.sendings.filter(({ refusedWith }) => refusedWith !== null).length,
  "asked again without an answer": clients.sendings.reduce((sum, { unknowns }) => sum + unknowns, 0),
  "processes that ended by themselves": ended,
  "taken by the mail server": mailServer.handed.length,
  "more than once": mailServer.handed.length - new Set(mailServer.handed.map(({ messageId }) => messageId)).size,
  "webhook requests": [...receivers.values()].reduce((sum, { posts }) => sum + posts.length, 0)
})
