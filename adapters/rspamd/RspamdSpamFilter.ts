/**
 * Has Rspamd judge inbound mail, by `POST /checkv2`. It is shown the beginning
 * of a large message: that is where spam is spam, and it bounds what waits in
 * memory.
 *
 * `reject` is refused. `greylist` and `soft reject` ask to have the sender come
 * again, which is not done here: that is ham, as `no action` is. All else goes
 * to the folder spam: `add header` and `rewrite subject`, `quarantine`, and the
 * operator's own actions, for each of them says more than `no action`; and
 * `discard`, which asks to take mail and throw it away, but nothing that is
 * taken is lost here.
 */
import { Data, Duration, Effect, Layer, Redacted, Semaphore, Stream } from "effect"
import { Agent, request } from "undici"
import type { Peer } from "../../core/model/Reception.ts"
import { SpamFilter, SpamFilterUnavailable } from "../../core/ports/SpamFilter.ts"

export interface Options {
  /** Where its normal worker or proxy listens, such as `http://127.0.0.1:11333`; with the path that a proxy before it has it under. */
  readonly url: string
  /** Its `password`, if it wants one. */
  readonly password?: Redacted.Redacted<string> | null
  /** To the verdict, with waiting for a connection; 9 seconds unless set. */
  readonly timeout?: Duration.Input
  /** How much of a message it is shown; 4 MiB unless set. */
  readonly shownBytesMax?: number
}

const connectionsMax = 16
const answerSizeMax = 1024 * 1024

/** Certificates are verified, said outright: an environment variable of Node's would turn it off. */
const makeAgent = () =>
  new Agent({ connections: connectionsMax, pipelining: 1, maxResponseSize: answerSizeMax, connect: { timeout: 3_000, rejectUnauthorized: true } })

class Unexpected extends Data.TaggedError("Unexpected")<{ readonly message: string }> {}

export const layerWith = ({ url, password = null, timeout = "9 seconds", shownBytesMax = 4 * 1024 * 1024 }: Options): Layer.Layer<SpamFilter> =>
  Layer.effect(
    SpamFilter,
    Effect.gen(function* () {
      const dispatcher = yield* Effect.acquireRelease(
        Effect.sync(makeAgent),
        (agent) => Effect.promise(() => agent.destroy())
      )
      const check = (head: Record<string, string | Array<string>>, body: Buffer) =>
        Effect.tryPromise({
          try: async (signal) => {
            const answer = await request(at(url, "/checkv2"), { method: "POST", headers: head, body, dispatcher, signal })
            const text = await answer.body.text()
            if (answer.statusCode !== 200) throw new Unexpected({ message: `rspamd answers ${answer.statusCode}` })
            return verdictOf(text)
          },
          catch: (cause) => new SpamFilterUnavailable({ cause })
        })

      // Before it is read: of each connection that mail comes in by, a message may wait here.
      const turns = Semaphore.makeUnsafe(connectionsMax)
      return SpamFilter.of({
        judge: Effect.fnUntraced(
          function* ({ peer, returnPath, recipients, bytes }) {
            const body = yield* beginning(bytes, shownBytesMax)
            return yield* check(headers(peer, returnPath, recipients, password), body)
          },
          turns.withPermit,
          Effect.timeoutOrElse({
            duration: timeout,
            orElse: () => Effect.fail(new SpamFilterUnavailable({ cause: `no verdict within ${Duration.format(Duration.fromInputUnsafe(timeout))}` }))
          })
        )
      })
    })
  )

/** Why it would not judge. */
export class CheckFailed extends Data.TaggedError("CheckFailed")<{ readonly reason: string }> {}

/**
 * Asks an Rspamd whether it is there, and shows it no message. What it makes of the password, its controller says at `/auth`;
 * the workers that judge ask for none, and know no such path.
 */
export const check = ({ url, password = null, timeout = "9 seconds" }: Options): Effect.Effect<"taken" | "refused" | "not asked", CheckFailed> =>
  Effect.tryPromise({
    try: async (signal) => {
      const dispatcher = makeAgent()
      const get = async (path: string) => {
        const { statusCode, body } = await request(at(url, path), { headers: passwordHeader(password), dispatcher, signal })
        return { statusCode, text: await body.text() }
      }
      try {
        const ping = await get("/ping")
        if (ping.statusCode !== 200 || ping.text.trim() !== "pong") throw new Unexpected({ message: "it does not answer as Rspamd does" })
        const { statusCode } = await get("/auth")
        return statusCode === 401 || statusCode === 403 ? "refused" : statusCode === 200 ? "taken" : "not asked"
      } finally {
        await dispatcher.destroy()
      }
    },
    catch: (cause) => new CheckFailed({ reason: wordsOf(cause) })
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () => Effect.fail(new CheckFailed({ reason: `no answer within ${Duration.format(Duration.fromInputUnsafe(timeout))}` }))
    })
  )

/** A name with several addresses fails with an error of each, and without words of its own. */
const wordsOf = (cause: unknown): string =>
  cause instanceof AggregateError ? cause.errors.map(wordsOf).join("; ") : cause instanceof Error ? cause.message : String(cause)

const beginning = <E>(bytes: Stream.Stream<Uint8Array, E>, sizeMax: number): Effect.Effect<Buffer, E> =>
  Effect.suspend(() => {
    const pieces: Array<Uint8Array> = []
    let room = sizeMax
    const keep = (piece: Uint8Array) =>
      Effect.sync(() => {
        const kept = new Uint8Array(piece.subarray(0, room)) // a copy, for a piece may be used again by who made it
        room -= kept.length
        pieces.push(kept)
        return room > 0
      })
    return Effect.map(Stream.runForEachWhile(bytes, keep), () => Buffer.concat(pieces))
  })

/** A path of Rspamd's under the URL's own. */
const at = (url: string, path: string): URL => {
  const whole = new URL(url)
  whole.pathname = whole.pathname.replace(/\/$/, "") + path
  return whole
}

/** As UTF-8: what undici takes for the bytes of a header are characters of Latin-1. */
const utf8 = (text: string): string => Buffer.from(text, "utf8").toString("latin1")

/** In one line, too. */
const value = (text: string): string => utf8(text.replace(/[\0-\x1f\x7f]/g, "?"))

const headers = (peer: Peer, returnPath: string | null, recipients: ReadonlyArray<string>, password: Options["password"]) => ({
  "Content-Type": "application/octet-stream",
  IP: peer.remoteAddress,
  Helo: value(peer.helo),
  From: value(returnPath ?? ""),
  Rcpt: recipients.map(value),
  ...passwordHeader(password)
})

const passwordHeader = (password: Options["password"]): Record<string, string> => (password == null ? {} : { Password: utf8(Redacted.value(password)) })

/** By action; any other is spam. */
const verdicts: ReadonlyMap<string, "ham" | "refuse"> = new Map([
  ["no action", "ham"],
  ["greylist", "ham"],
  ["soft reject", "ham"],
  ["reject", "refuse"]
])

/** An answer without an action is no verdict. */
const verdictOf = (text: string): "ham" | "spam" | "refuse" => {
  const answer: unknown = JSON.parse(text)
  const action = typeof answer === "object" && answer !== null && "action" in answer && typeof answer.action === "string" ? answer.action : ""
  if (action === "") throw new Unexpected({ message: "rspamd's answer has no action" })
  return verdicts.get(action) ?? "spam"
}
