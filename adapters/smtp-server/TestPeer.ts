/** For tests: a core that keeps what it is given, and a client that says bytes and hears lines. */
import { Effect, Layer, Stream, type Scope } from "effect"
import { connect, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { BlobUnavailable } from "../../core/ports/BlobStore.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { Receive, ReceiveRefused } from "../../core/operations/Receive.ts"
import type { Peer } from "../../core/model/Reception.ts"
import type { Address } from "./SmtpListener.ts"

export interface Taken {
  readonly peer: Peer
  readonly returnPath: string | null
  readonly recipients: ReadonlyArray<string>
  /** A character for a byte. */
  readonly text: string
}

const cause = new Error("down")

/** Everybody at `ours.test` but those whose name says otherwise. */
const recipient = (address: string) => {
  const [local = "", domain] = address.toLowerCase().split("@")
  if (local === "postmaster" && domain === undefined) return Effect.fail(new ReceiveRefused({ code: 553, enhancedCode: "5.1.3", text: "no address" }))
  if (domain !== "ours.test") return Effect.fail(new ReceiveRefused({ code: 550, enhancedCode: "5.7.1", text: "no relay" }))
  if (local.startsWith("nobody")) return Effect.fail(new ReceiveRefused({ code: 550, enhancedCode: "5.1.1", text: "no such mailbox" }))
  if (local === "suspended") return Effect.fail(new ReceiveRefused({ code: 550, enhancedCode: "5.2.1", text: "suspended" }))
  if (local === "rude") return Effect.fail(new ReceiveRefused({ code: 550, enhancedCode: "5.1.1", text: "no\r\n250 yes" }))
  return local === "down" ? Effect.fail(new StoreUnavailable({ cause })) : Effect.void
}

/** By the name of the sender, or all is taken. */
const outcomes: Readonly<Record<string, Effect.Effect<never, ReceiveRefused | StoreUnavailable | BlobUnavailable>>> = {
  spam: Effect.fail(new ReceiveRefused({ code: 550, enhancedCode: "5.7.1", text: "refused as spam" })),
  loop: Effect.fail(new ReceiveRefused({ code: 554, enhancedCode: "5.4.6", text: "a loop" })),
  later: Effect.fail(new ReceiveRefused({ code: 450, enhancedCode: "4.7.1", text: "later" })),
  down: Effect.fail(new StoreUnavailable({ cause })),
  blobs: Effect.fail(new BlobUnavailable({ cause })),
  bug: Effect.die(cause)
}

export interface Recorder {
  readonly taken: ReadonlyArray<Taken>
  readonly layer: Layer.Layer<Receive>
}

/** `within`: around each taking, with what was taken. */
export const recorder = (within: (taking: Effect.Effect<void>) => Effect.Effect<void> = (taking) => taking): Recorder => {
  const taken: Array<Taken> = []
  const layer = Layer.succeed(
    Receive,
    Receive.of({
      recipient,
      accept: Effect.fnUntraced(function* ({ bytes, ...message }) {
        const name = message.returnPath?.split("@")[0] ?? ""
        // Refuses before it has read a byte.
        if (name === "early") return yield* new ReceiveRefused({ code: 550, enhancedCode: "5.7.1", text: "refused early" })
        if (name === "careless") return
        // Takes as much as it got for the whole.
        if (name === "deaf") return yield* Effect.ignore(Stream.runDrain(bytes))
        const pieces = yield* Stream.runCollect(bytes)
        yield* outcomes[name] ?? Effect.void
        yield* within(Effect.sync(() => void taken.push({ ...message, text: Buffer.concat(pieces).toString("latin1") })))
      })
    })
  )
  return { taken, layer }
}

export interface Client {
  readonly socket: () => Socket
  readonly say: (bytes: Buffer | string) => Effect.Effect<void>
  /** The next line without its end; null once the server has closed. */
  readonly hear: Effect.Effect<string | null>
  /** Hears lines until one is the last of a reply. */
  readonly reply: Effect.Effect<string>
  /** Whether it came about. */
  readonly startTls: Effect.Effect<boolean>
}

export const client = (address: Address): Effect.Effect<Client, never, Scope.Scope> =>
  Effect.gen(function* () {
    let socket = connect("path" in address ? { path: address.path } : address)
    let heard = ""
    let isOver = false
    let onChange = () => {}
    const listen = (to: Socket) => {
      to.on("data", (bytes) => {
        heard += bytes.toString("latin1")
        onChange()
      })
      to.on("error", () => {})
      for (const event of ["end", "close"]) {
        to.on(event, () => {
          isOver = true
          onChange()
        })
      }
    }
    listen(socket)
    yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))
    const hear = Effect.callback<string | null>((resume) => {
      const look = () => {
        const end = heard.indexOf("\r\n")
        if (end < 0 && !isOver) return
        onChange = () => {}
        const line = end < 0 ? null : heard.slice(0, end)
        heard = heard.slice(end + 2)
        resume(Effect.succeed(line))
      }
      onChange = look
      look()
    })
    const reply = Effect.gen(function* () {
      let line = yield* hear
      while (line !== null && line[3] === "-") line = yield* hear
      return line ?? "closed"
    })
    return {
      socket: () => socket,
      say: (bytes) => Effect.sync(() => void socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes)),
      hear,
      reply,
      startTls: Effect.callback((resume) => {
        socket.removeAllListeners("data")
        const secure = connectTls({ socket, rejectUnauthorized: false }, () => {
          socket = secure
          listen(secure)
          resume(Effect.succeed(true))
        })
        for (const event of ["error", "close"]) secure.once(event, () => resume(Effect.succeed(false)))
      })
    }
  })
