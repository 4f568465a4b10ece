/**
 * What well-behaved clients do while things break: they send, and ask again
 * under the same key until they have an answer; they follow the event feed and
 * store its cursor; they read what they sent, and have webhooks sent again. What
 * they were told is the truth that the service is held to afterwards.
 */
import { randomUUID } from "node:crypto"
import { call, chance, sleep, type Caller, type Reply } from "../Api.ts"

/** All that a client knows of one send. */
export interface Sending {
  readonly caller: Caller
  readonly key: string
  readonly subject: string
  readonly recipients: ReadonlyArray<string>
  /** Of the 202s; more than one is a broken promise. */
  readonly ids: Set<string>
  /** 202s without `Idempotent-Replayed`. */
  firsts: number
  /** Requests whose outcome nobody told. */
  unknowns: number
  /** The code of a refusal that ended it. */
  refusedWith: string | null
}

const requestOf = ({ caller, key, subject, recipients }: Sending) => ({
  body: { fromMailboxId: caller.mailboxId, to: recipients, subject, text: "The engine weaves." },
  headers: { "idempotency-key": key }
})

const pick = <A>(list: ReadonlyArray<A>): A => list[Math.floor(chance() * list.length)]!

const locals = ["delivered", "delivered", "delivered", "bounced", "failed", "delayed", "late-bounce", "duplicate"]

export class Clients {
  readonly sendings: Array<Sending> = []
  /** Per caller, the ids of the events in the order in which its feed showed them. */
  readonly feeds = new Map<Caller, { readonly ids: Set<string>; cursor: string | null }>()
  /** Webhooks that were to be sent again, by the 202s. */
  replays = 0
  /** Answers that show another tenant's canary. */
  readonly leaks: Array<string> = []
  /** Answers that no contract knows. */
  readonly oddities: Array<string> = []
  #stopped = false
  #running: Array<Promise<void>> = []
  readonly #baseUrls: () => ReadonlyArray<string>
  readonly #callers: ReadonlyArray<Caller>

  constructor(callers: ReadonlyArray<Caller>, baseUrls: () => ReadonlyArray<string>) {
    this.#callers = callers
    this.#baseUrls = baseUrls
    for (const caller of callers) this.feeds.set(caller, { ids: new Set(), cursor: null })
  }

  /** Starts so many senders, and for each caller one who reads its feed, and one who has webhooks sent again. */
  start(senders: number): void {
    this.#stopped = false
    for (let index = 0; index < senders; index++) this.#running.push(this.#sendOn(index))
    for (const caller of this.#callers) this.#running.push(this.#readOn(caller), this.#replayOn(caller))
  }

  /** Sends no more; those under way are seen through to an answer. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#running.splice(0))
  }

  /** One request at whatever process answers. */
  async ask(caller: Caller, method: string, path: string, options: Parameters<typeof call>[4] = {}): Promise<Reply | null> {
    const reply = await call(pick(this.#baseUrls()), caller.apiKey, method, path, options)
    if (reply !== null) this.#judge(caller, path, reply)
    return reply
  }

  #judge(caller: Caller, path: string, { status, json, headers }: Reply): void {
    const text = JSON.stringify(json)
    for (const other of this.#callers) {
      if (other.canary !== caller.canary && text.includes(other.canary)) this.leaks.push(`${caller.name} ${path}: ${other.canary}`)
    }
    const isEnvelope = typeof json["code"] === "string" && json["requestId"] === headers.get("x-request-id")
    if (status >= 400 && !isEnvelope) this.oddities.push(`${status} without an envelope at ${path}: ${text.slice(0, 200)}`)
    if (status === 500) this.oddities.push(`500 at ${path}: ${text.slice(0, 200)}`)
  }

  async #sendOn(index: number): Promise<void> {
    for (let number = 0; !this.#stopped; number++) {
      const caller = this.#callers[(index + number) % this.#callers.length]!
      await this.send(caller)
      await sleep(chance() * 200)
    }
  }

  #begin(caller: Caller): Sending {
    const recipients = Array.from(
      { length: 1 + Math.floor(chance() * 2) },
      (_, place) => `${pick(locals)}+${place}${randomUUID().slice(0, 8)}@example.com`
    )
    const subject = `${caller.canary} ${randomUUID()}`
    const sending: Sending = { caller, key: randomUUID(), subject, recipients, ids: new Set(), firsts: 0, unknowns: 0, refusedWith: null }
    this.sendings.push(sending)
    return sending
  }

  /** Sends one message, and asks until it is told what became of the request. */
  async send(caller: Caller): Promise<Sending> {
    const sending = this.#begin(caller)
    for (;;) {
      const reply = await this.ask(caller, "POST", "/v1/messages", requestOf(sending))
      if (reply?.status === 202) {
        sending.ids.add(String(reply.json["id"]))
        if (reply.headers.get("idempotent-replayed") !== "true") sending.firsts += 1
        // Now and then once more: a replay must name the same message.
        if (chance() < 0.9) return sending
      } else if (reply === null || reply.status >= 500) {
        sending.unknowns += 1
        await sleep(50 + chance() * 200)
      } else if (reply.json["code"] === "idempotency_pending" || reply.status === 429) {
        await sleep(200)
      } else {
        sending.refusedWith = String(reply.json["code"])
        return sending
      }
    }
  }

  /** Whether a message that is sent now is taken at once: by any process, and by every one. */
  async probe(caller: Caller): Promise<{ readonly byAny: boolean; readonly byAll: boolean }> {
    const sending = this.#begin(caller)
    const taken = await Promise.all(
      this.#baseUrls().map(async (baseUrl, index) => {
        const probe = index === 0 ? sending : this.#begin(caller)
        const reply = await call(baseUrl, caller.apiKey, "POST", "/v1/messages", { ...requestOf(probe), timeoutMs: 2_000 })
        if (reply?.status === 202) probe.ids.add(String(reply.json["id"]))
        else probe.unknowns += 1
        return reply?.status === 202
      })
    )
    return { byAny: taken.includes(true), byAll: !taken.includes(false) }
  }

  async #readOn(caller: Caller): Promise<void> {
    while (!this.#stopped) {
      await this.readFeed(caller)
      await sleep(100)
    }
  }

  async #replayOn(caller: Caller): Promise<void> {
    while (!this.#stopped) {
      await sleep(chance() * 500)
      const reply = await this.ask(caller, "GET", "/v1/webhook-deliveries?limit=100")
      const found = reply?.status === 200 ? (reply.json["items"] as ReadonlyArray<{ readonly id: string; readonly status: string }>) : []
      const ended = found.filter(({ status }) => status !== "pending")
      if (ended.length === 0) continue
      const replayed = await this.ask(caller, "POST", `/v1/webhook-deliveries/${pick(ended).id}/replay`)
      if (replayed?.status === 202) this.replays += 1
    }
  }

  /** Follows the feed to its present end. */
  async readFeed(caller: Caller): Promise<void> {
    const feed = this.feeds.get(caller)!
    for (;;) {
      const from = feed.cursor === null ? "" : `&cursor=${encodeURIComponent(feed.cursor)}`
      const reply = await this.ask(caller, "GET", `/v1/events?limit=100${from}`)
      if (reply?.status !== 200) return
      // The last page is read again until it is full: what was seen keeps its place.
      for (const { id } of reply.json["items"] as ReadonlyArray<{ readonly id: string }>) feed.ids.add(id)
      const next = reply.json["nextCursor"] as string | null
      if (next === null) return
      feed.cursor = next
    }
  }
}
