import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Result } from "effect"
import * as http from "node:http"
import * as https from "node:https"
import * as net from "node:net"
import { buffer } from "node:stream/consumers"
import { generate } from "selfsigned"
import * as tls from "node:tls"
import { conforms } from "../../conformance/vitest.ts"
import { Receivers, suite, type Arrived, type Behaviour } from "../../conformance/WebhookTransport.ts"
import { suite as wireSuite, Wire, type Certificate, type Listening, type Said } from "../../conformance/WebhookTransportWire.ts"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import { ResolutionFailed, Resolver } from "../../core/ports/Resolver.ts"
import { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import * as UndiciWebhookTransport from "./UndiciWebhookTransport.ts"

// Linux takes all of 127.0.0.0/8 for its own.
const [address, other, forbidden] = ["127.0.0.1", "127.0.0.3", "127.0.0.2"]
const policy = { allowHttp: true, allowedBlocks: [`${address}/32`, `${other}/32`] }

const freshHost = () => `h${globalThis.crypto.randomUUID()}.hooks.example`

// Names

const unasked = () => Effect.die("a webhook needs addresses only")
const onlyAddresses = { txt: unasked, mx: unasked, cname: unasked }

const makeNames = () => {
  const names = new Map<string, ReadonlyArray<ReadonlyArray<string>>>()
  const resolver = Resolver.of({
    addresses: (host) =>
      Effect.suspend(() => {
        const [first = [], ...rest] = names.get(host) ?? []
        if (rest.length > 0) names.set(host, rest)
        return first.length > 0 ? Effect.succeed(first) : Effect.fail(new ResolutionFailed({ reason: "not_found" }))
      }),
    ...onlyAddresses
  })
  const lead = (host: string, ...answers: ReadonlyArray<ReadonlyArray<string>>) => Effect.sync(() => void names.set(host, answers))
  return { resolver, lead }
}

// Certificates

const day = 24 * 60 * 60 * 1000

const makeAuthority = async (name: string) => {
  const { private: key, public: publicKey, cert } = await generate([{ name: "commonName", value: name }], {
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true }
    ]
  })
  // One key for all certificates: making keys takes long.
  return { key, cert, keyPair: { privateKey: key, publicKey } }
}

const makeCertificates = async () => {
  const [authority, unknown] = [await makeAuthority("trusted authority"), await makeAuthority("unknown authority")]
  const leaf = async (
    altName: { type: 2; value: string } | { type: 7; ip: string },
    ca: { key: string; cert: string } | undefined,
    [from, to]: readonly [number, number] = [-1, 1]
  ) => {
    const { private: key, cert } = await generate([{ name: "commonName", value: "receiver" }], {
      keyPair: unknown.keyPair,
      algorithm: "sha256",
      notBeforeDate: new Date(Date.now() + from * day),
      notAfterDate: new Date(Date.now() + to * day),
      extensions: [{ name: "subjectAltName", altNames: [altName] }],
      ...(ca === undefined ? {} : { ca })
    })
    return { key, cert }
  }
  const name = { type: 2, value: "*.hooks.example" } as const
  return {
    ca: authority.cert,
    leaves: {
      OfItsName: await leaf(name, authority),
      OfItsAddress: await leaf({ type: 7, ip: address }, authority),
      OfAnotherName: await leaf({ type: 2, value: "*.other.example" }, authority),
      Expired: await leaf(name, authority, [-3, -1]),
      NotYetValid: await leaf(name, authority, [1, 3]),
      SelfSigned: await leaf(name, undefined),
      OfUnknownAuthority: await leaf(name, unknown)
    } satisfies { readonly [C in Exclude<Certificate, "Mute">]: { readonly key: string; readonly cert: string } }
  }
}

const certificates = await makeCertificates()

// Listening

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

const makeReceivers = (names: ReturnType<typeof makeNames>, isSecure: boolean) =>
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
      const server = isSecure ? https.createServer(certificates.leaves.OfItsName, onRequest) : http.createServer(onRequest)
      const { reached } = watch(server)
      yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
      yield* listening(server, "0.0.0.0")
      const host = freshHost()
      yield* names.lead(host, [address])
      return {
        url: `${isSecure ? "https" : "http"}://${host}:${portOf(server)}/hooks?a=1&b=%20`,
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

const serve = (certificate: Certificate | undefined, converse: (socket: net.Socket) => void) => {
  const serverNames: Array<string | null> = []
  if (certificate === undefined) return { server: net.createServer(converse), serverNames }
  if (certificate === "Mute") return { server: net.createServer((socket) => socket.resume()), serverNames }
  const server = tls.createServer({ ...certificates.leaves[certificate], ALPNProtocols: ["http/1.1"] }, (socket) => {
    serverNames.push(socket.servername === false ? null : (socket.servername ?? null))
    converse(socket)
  })
  return { server: server.on("tlsClientError", () => {}), serverNames }
}

const makeWire = (names: ReturnType<typeof makeNames>) =>
  Wire.of({
    policy,
    addresses: [address, other],
    forbidden,
    lead: names.lead,
    listen: Effect.fnUntraced(function* ({ certificate, only = "0.0.0.0", says }: Listening) {
      const requests: Array<string> = []
      const { server, serverNames } = serve(certificate, (socket) => {
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

const over = <I, S>(tag: Context.Key<I, S>, make: (names: ReturnType<typeof makeNames>) => S) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const names = makeNames()
      const transport = UndiciWebhookTransport.layerWith({ ca: [certificates.ca] })
      const context = yield* Layer.build(Layer.provide(transport, Layer.succeed(Resolver, names.resolver)))
      return Context.add(context, tag, make(names))
    })
  )

conforms("UndiciWebhookTransport over http", suite, over(Receivers, (names) => makeReceivers(names, false)))
conforms("UndiciWebhookTransport over https", suite, over(Receivers, (names) => makeReceivers(names, true)))
conforms("UndiciWebhookTransport", wireSuite, over(Wire, makeWire))

describe("UndiciWebhookTransport", () => {
  it.effect("verifies certificates whatever the environment says", () =>
    Effect.gen(function* () {
      process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0"
      yield* Effect.addFinalizer(() => Effect.sync(() => delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"]))
      const { listen } = yield* Wire
      const { requests, url } = yield* listen({ certificate: "SelfSigned", says: [[]] })
      const target = Result.getOrThrow(WebhookUrl.parse(url, policy))

      const error = yield* Effect.flip(WebhookTransport.use(({ post }) => post({ target, headers: {}, body: new Uint8Array() })))

      assert.strictEqual(error.reason, "network_error")
      assert.deepStrictEqual(yield* requests, [])
    }).pipe(Effect.provide(over(Wire, makeWire)))
  )
})
