/**
 * What the suites of `WebhookTransport` need, on the sockets of this machine:
 * servers that receive, and a `Resolver` whose names lead to them. It wants
 * all of 127.0.0.0/8 for this machine's own, as Linux has it.
 */
import { Context, Effect, Layer } from "effect"
import * as http from "node:http"
import * as https from "node:https"
import * as net from "node:net"
import { buffer } from "node:stream/consumers"
import * as tls from "node:tls"
import { ResolutionFailed, Resolver } from "../core/ports/Resolver.ts"
import type { WebhookTransport } from "../core/ports/WebhookTransport.ts"
import { freshId } from "./fixtures.ts"
import { Receivers, type Arrived, type Behaviour } from "./WebhookTransport.ts"
import { Wire, type Certificate, type Listening, type Said } from "./WebhookTransportWire.ts"

/** A certificate and its private key, in PEM. */
export interface Pem {
  readonly key: string
  readonly cert: string
}

/** One of each kind; those of a name are of `*.hooks.example`, the one of an address is of 127.0.0.1. */
export type Certificates = { readonly [C in Exclude<Certificate, "Mute">]: Pem }

const [address, other, forbidden] = ["127.0.0.1", "127.0.0.3", "127.0.0.2"]
const policy = { allowHttp: true, allowedBlocks: [`${address}/32`, `${other}/32`] }

const freshHost = () => `h${freshId<string>()}.hooks.example`

const unasked = () => Effect.die("a webhook needs addresses only")

const makeNames = () => {
  const names = new Map<string, ReadonlyArray<ReadonlyArray<string>>>()
  const resolver = Resolver.of({
    addresses: (host) =>
      Effect.suspend(() => {
        const [first = [], ...rest] = names.get(host) ?? []
        if (rest.length > 0) names.set(host, rest)
        return first.length > 0 ? Effect.succeed(first) : Effect.fail(new ResolutionFailed({ reason: "not_found" }))
      }),
    txt: unasked,
    mx: unasked,
    cname: unasked
  })
  const lead = (host: string, ...answers: ReadonlyArray<ReadonlyArray<string>>) => Effect.sync(() => void names.set(host, answers))
  return { resolver, lead }
}

type Names = ReturnType<typeof makeNames>

const listening = <S extends net.Server>(server: S, host: string) =>
  Effect.acquireRelease(
    Effect.promise(() => new Promise<S>((resolve) => server.listen(0, host, () => resolve(server)))),
    () => Effect.sync(() => server.close())
  )

/** Where a server was connected to, and what is open of it. */
const watch = (server: net.Server) => {
  const reached: Array<string> = []
  const open = new Set<net.Socket>()
  server.on("connection", (socket: net.Socket) => {
    reached.push(socket.localAddress ?? "nowhere")
    open.add(socket)
    socket.on("error", () => {}).on("close", () => open.delete(socket))
  })
  return { reached: Effect.sync(() => [...reached]), open }
}

const portOf = (server: net.Server): number => (server.address() as net.AddressInfo).port // it listens on a port

const makeReceivers = (names: Names, certificate: Pem | undefined) =>
  Receivers.of({
    policy,
    address,
    forbidden,
    lead: names.lead,
    open: Effect.fnUntraced(function* (behave: (arrived: Arrived) => Behaviour) {
      const arrived: Array<Arrived> = []
      const waiting = new Set<http.ServerResponse>()
      const receive = async (request: http.IncomingMessage, response: http.ServerResponse) => {
        const body = await buffer(request)
        const headers = Object.fromEntries(Object.entries(request.headersDistinct).map(([name, values = []]) => [name, values.join("|")]))
        const one = { method: request.method ?? "", path: request.url ?? "", headers, body }
        arrived.push(one)
        const behaviour = behave(one)
        if (behaviour._tag === "Leaves") request.socket.destroy()
        if (behaviour._tag === "Hangs") waiting.add(response.on("close", () => waiting.delete(response)))
        if (behaviour._tag === "Answers") response.writeHead(behaviour.status, behaviour.headers).end(behaviour.body)
      }
      const onRequest: http.RequestListener = (request, response) => void receive(request, response)
      const server = certificate === undefined ? http.createServer(onRequest) : https.createServer(certificate, onRequest)
      const { reached } = watch(server)
      yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
      yield* listening(server, "0.0.0.0")
      const host = freshHost()
      yield* names.lead(host, [address])
      return {
        url: `${certificate === undefined ? "http" : "https"}://${host}:${portOf(server)}/hooks?a=1&b=%20`,
        host,
        arrived: Effect.sync(() => [...arrived]),
        waiting: Effect.sync(() => waiting.size),
        reached
      }
    })
  })

/** Says one piece after the other, each in a packet of its own. */
const say = (socket: net.Socket, [piece, ...rest]: ReadonlyArray<Said>): void => {
  if (piece === undefined || socket.destroyed) return
  if (piece === "<end>") socket.end()
  else if (piece === "<reset>") socket.resetAndDestroy()
  else socket.write(piece, "latin1")
  setImmediate(() => say(socket, rest))
}

/** The length of the first request in a text; 0 if it is not whole. What is no HTTP is whole. */
const lengthOfRequest = (text: string): number => {
  if (text.startsWith("\u0016")) return text.length
  const end = text.indexOf("\r\n\r\n") + 4
  const length = end + Number(/^content-length: (\d+)$/im.exec(text.slice(0, end))?.[1] ?? 0)
  return end < 4 || text.length < length ? 0 : length
}

const serve = (certificates: Certificates, certificate: Certificate | undefined, converse: (socket: net.Socket) => void) => {
  const serverNames: Array<string | null> = []
  if (certificate === undefined) return { server: net.createServer(converse), serverNames }
  if (certificate === "Mute") return { server: net.createServer((socket) => socket.resume()), serverNames }
  const server = tls.createServer({ ...certificates[certificate], ALPNProtocols: ["http/1.1"] }, (socket) => {
    serverNames.push(socket.servername === false ? null : (socket.servername ?? null))
    converse(socket)
  })
  return { server: server.on("tlsClientError", () => {}), serverNames }
}

const makeWire = (names: Names, certificates: Certificates) =>
  Wire.of({
    policy,
    addresses: [address, other],
    forbidden,
    lead: names.lead,
    listen: Effect.fnUntraced(function* ({ certificate, only = "0.0.0.0", says }: Listening) {
      const requests: Array<string> = []
      const { server, serverNames } = serve(certificates, certificate, (socket) => {
        let heard = ""
        socket.setNoDelay(true).on("error", () => {})
        socket.on("data", (bytes: Buffer) => {
          heard += bytes.toString("latin1")
          for (let length = lengthOfRequest(heard); length > 0; length = lengthOfRequest(heard)) {
            const said = says[Math.min(requests.length, says.length - 1)] ?? []
            requests.push(heard.slice(0, length))
            heard = heard.slice(length)
            say(socket, said)
          }
        })
      })
      const { open, reached } = watch(server)
      yield* Effect.addFinalizer(() => Effect.sync(() => open.forEach((socket) => socket.destroy())))
      yield* listening(server, only)
      const host = freshHost()
      yield* names.lead(host, [address])
      return {
        url: `${certificate === undefined ? "http" : "https"}://${host}:${portOf(server)}/hooks`,
        host,
        requests: Effect.sync(() => [...requests]),
        reached,
        serverNames: Effect.sync(() => [...serverNames]),
        open: Effect.sync(() => open.size)
      }
    })
  })

/** A transport is to ask the names of the servers, and no others. */
const beside = <I, S, E>(transport: Layer.Layer<WebhookTransport, E, Resolver>, tag: Context.Key<I, S>, make: (names: Names) => S) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const names = makeNames()
      const context = yield* Layer.build(Layer.provide(transport, Layer.succeed(Resolver, names.resolver)))
      return Context.add(context, tag, make(names))
    })
  )

/** A transport with receivers over http for `webhookTransport`, or over https where there is a certificate of `*.hooks.example`. */
export const withReceivers = <E>(transport: Layer.Layer<WebhookTransport, E, Resolver>, certificate?: Pem) =>
  beside(transport, Receivers, (names) => makeReceivers(names, certificate))

/** A transport, which trusts the authority of the certificates, with the wire for `webhookTransportWire`. */
export const withWire = <E>(transport: Layer.Layer<WebhookTransport, E, Resolver>, certificates: Certificates) =>
  beside(transport, Wire, (names) => makeWire(names, certificates))
