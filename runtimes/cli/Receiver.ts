/** A webhook receiver for the suite: listens for as long as the scope is open, and answers as it is told. */
import { Clock, Data, Effect } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { authority } from "../../core/model/Authority.ts"

// By name, as the suite itself: no runtime carries it.
type Receiver = import("../../conformance/http/index.ts").Receiver
type ReceivedRequest = import("../../conformance/http/index.ts").ReceivedRequest
type ReceiverAnswer = import("../../conformance/http/index.ts").ReceiverAnswer

export interface Options {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
  /** How the deployment reaches it; null: at the address it listens at. */
  readonly publicUrl: string | null
}

/** It cannot listen there; one line. */
export class ReceiverFault extends Data.TaggedError("ReceiverFault")<{ readonly message: string }> {}

/** Bytes of a request that are kept: many times what a webhook has. */
const bodyBytesMax = 1024 * 1024

export const listen = Effect.fnUntraced(function* ({ host, port, publicUrl }: Options) {
  const answers = new Map<string, (body: string) => ReceiverAnswer>()
  const requests = new Map<string, Array<ReceivedRequest>>()
  const context = yield* Effect.context()

  const respond = Effect.fnUntraced(function* (request: IncomingMessage, response: ServerResponse) {
    const body = yield* Effect.promise(() => read(request))
    const at = yield* Clock.currentTimeMillis
    const asked = (request.url ?? "").split("?")[0]!
    // Whoever forwards to us may have put something before the path.
    const path = [...answers.keys()].find((known) => asked.endsWith(known))
    const answer = path === undefined ? undefined : answers.get(path)
    if (body === null || path === undefined || answer === undefined) {
      response.writeHead(404).end()
      return
    }
    const headers = Object.fromEntries(
      Object.entries(request.headersDistinct).map(([name, values]) => [name, values?.join(", ") ?? ""])
    )
    requests.set(path, [...(requests.get(path) ?? []), { method: request.method ?? "", headers, body, at }])
    const { status, headers: more = {}, body: text = "", afterMillis = 0 } = answer(new TextDecoder().decode(body))
    yield* Effect.sleep(afterMillis)
    response.writeHead(status, more).end(text)
  })

  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      createServer((request, response) => void Effect.runForkWith(context)(respond(request, response)))
    ),
    (server) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  yield* Effect.callback<void, ReceiverFault>((resume) => {
    server.once(
      "error",
      ({ message }) =>
        resume(
          Effect.fail(
            new ReceiverFault({ message: `the webhook receiver cannot listen on ${authority(host, port)}: ${message}` })
          )
        )
    )
    server.listen(port, host, () => resume(Effect.void))
  })
  const address = server.address()
  const listening = address !== null && typeof address === "object" ? address.port : port
  const base = publicUrl?.replace(/\/+$/, "") ?? `http://${authority(host, listening)}`
  return {
    urlOf: (path) => `${base}${path}`,
    answer: (path, answer) => void answers.set(path, answer),
    received: (path) => requests.get(path) ?? [],
    isGiven: publicUrl !== null
  } satisfies Receiver
})

/** The body, or null if it is too large or broken off. */
const read = async (request: IncomingMessage): Promise<Uint8Array | null> => {
  const chunks: Array<Buffer> = []
  let size = 0
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > bodyBytesMax) return null
      chunks.push(chunk)
    }
    return new Uint8Array(Buffer.concat(chunks))
  } catch {
    return null
  }
}
