/**
 * A backlog of events for the worker of a deployment: tenants with an endpoint
 * at each receiver, and events of 1 KB appended in bulk while the worker stands
 * still, so that what is timed begins with all of them there.
 */
import { Effect, Layer, ManagedRuntime } from "effect"
import * as Database from "../adapters/postgres/Database.ts"
import * as EventSample from "../core/model/EventSample.ts"
import type { ApplicationId, Environment, EventId, MailboxId, MessageId, TenantId } from "../core/model/Ids.ts"
import { Crypto } from "../core/ports/Crypto.ts"
import { Store, type Change } from "../core/ports/Store.ts"
import * as Adapters from "../runtimes/Adapters.ts"
import * as Config from "../runtimes/Config.ts"
import { call, sleep, type Caller } from "./Api.ts"
import type { Deployment } from "./Deployment.ts"
import { tenantIdOf } from "./Founding.ts"
import { cpuMs } from "./Processor.ts"
import type { Behaviour, Received, Receivers } from "./receiver.ts"

const eventsPerCommit = 500

export interface Subscriber {
  readonly environment: Environment
  readonly tenantId: TenantId
  readonly applicationId: ApplicationId
}

export interface Drained {
  readonly received: Received
  /** Deliveries that receivers have answered, by the second. */
  readonly perSecond: number
  /** Processor time of the worker and of PostgreSQL in milliseconds, until the last one was recorded. */
  readonly workerMs: number
  readonly postgresMs: number
}

export interface Backlog {
  /** Lets an application subscribe at each of these. */
  readonly subscribe: (caller: Caller, urls: ReadonlyArray<string>) => Promise<Subscriber>
  /** Appends events, and lets the worker deliver them: so many to receivers that answer. */
  readonly drain: (of: {
    readonly subscriber: Subscriber
    readonly events: number
    readonly receivers: Receivers
    readonly behaviour: Behaviour
    readonly answered: number
  }) => Promise<Drained>
  /** Waits until each delivery has been tried, or its endpoint disabled. */
  readonly settled: (subscriber: Subscriber) => Promise<void>
  readonly stop: () => Promise<void>
}

export const open = async (product: Deployment): Promise<Backlog> => {
  const config = (await Effect.runPromise(Config.load(product.variables, {}, ["database"]))) as Config.Deployment // the database is needed
  const runtime = ManagedRuntime.make(Layer.fresh(Adapters.operator(config)))
  const [worker] = product.cluster.workers
  const workerPid = () => worker!.pid! // it runs as long as the deployment
  while (!worker!.tail(1).includes("worker: ready")) await sleep(20)

  const append = ({ environment, tenantId, applicationId }: Subscriber, count: number) =>
    Effect.gen(function* () {
      const [store, crypto] = [yield* Store, yield* Crypto]
      for (let done = 0; done < count; done += eventsPerCommit) {
        const changes: Array<Change> = []
        for (let index = 0; index < Math.min(eventsPerCommit, count - done); index++) {
          // A UUID is any of the three.
          const ids = { event: (yield* crypto.uuid) as EventId, resource: (yield* crypto.uuid) as MessageId, mailbox: (yield* crypto.uuid) as MailboxId }
          const event = EventSample.make("message.queued", { tenantId, applicationId }, ids, Date.now())
          changes.push({ _tag: "AppendEvent", event: { ...event, environment, data: { ...event.data, subject: "An analytical engine. ".repeat(22) } } })
        }
        yield* store.commit(changes, [])
      }
    })

  /** Deliveries of a tenant that were never tried, and are to be. */
  const untried = ({ tenantId }: Subscriber) =>
    Effect.gen(function* () {
      const { rows } = yield* Database.Database
      const [row] = yield* rows<{ count: bigint }>(
        `select count(*) from mailroom.delivery
         where tenant_id = '${tenantId}' and next_attempt_ms is not null and (record ->> 'attemptCount')::int = 0`
      )
      return Number(row!.count)
    })

  return {
    subscribe: async (caller, urls) => {
      let applicationId = ""
      for (const url of urls) {
        // One after the other: a host is verified once at a time.
        const made = await call(product.baseUrl, caller.apiKey, "POST", "/v1/webhook-endpoints", { body: { url, eventTypes: ["message.queued"] } })
        if (made?.status !== 201) throw new Error(`void: ${made?.status} ${JSON.stringify(made?.json)}`)
        applicationId = String(made.json["endpoint"]?.appId ?? made.json["appId"])
      }
      return { environment: caller.environment, tenantId: tenantIdOf(caller), applicationId: applicationId as ApplicationId }
    },
    drain: async ({ subscriber, events, receivers, behaviour, answered }) => {
      worker!.signal("SIGSTOP")
      await runtime.runPromise(append(subscriber, events))
      await receivers.behave(behaviour)
      const before = [cpuMs(workerPid()), product.database.cpu()] as const
      worker!.signal("SIGCONT")
      const deadline = performance.now() + 120_000
      let received = await receivers.received()
      while (received.answered < answered) {
        if (performance.now() > deadline) throw new Error(`void: ${received.answered} of ${answered} arrived\n${worker!.tail(5)}`)
        await sleep(20)
        received = await receivers.received()
      }
      while (behaviour.hanging === 0 && (await runtime.runPromise(untried(subscriber))) > 0) await sleep(20)
      const [workerMs, postgresMs] = [cpuMs(workerPid()) - before[0], product.database.cpu() - before[1]]
      received = await receivers.received()
      if (received.answered !== answered) throw new Error(`void: ${received.answered} arrived where ${answered} were due`)
      return { received, perSecond: answered / (received.lastMs / 1_000), workerMs, postgresMs }
    },
    settled: async (subscriber) => {
      while ((await runtime.runPromise(untried(subscriber))) > 0) await sleep(250)
    },
    stop: () => runtime.dispose()
  }
}
