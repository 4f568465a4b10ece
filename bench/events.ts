/**
 * A page of the event log from its middle, with ten million events in the log
 * and with ten thousand: each over a server and a `serve` of its own, in turn.
 */
import { Effect, Redacted } from "effect"
import * as NodeCrypto from "../adapters/node/NodeCrypto.ts"
import * as Events from "../core/operations/Events.ts"
import { Crypto } from "../core/ports/Crypto.ts"
import { call, chance, send } from "./Api.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import { tenantIdOf } from "./Founding.ts"
import { run, type Figures } from "./Load.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"

const many = Number(process.env["BENCH_EVENTS"] ?? scale.of(10_000_000, 20_000))
const few = scale.of(10_000, 2_000)
const durationMs = scale.of(1_000, 0)
const connections = 2
const limit = 50

const open = async (count: number) => {
  const product = await Deployment.open({ database: Copies.settings, measuresCommits: false })
  await send(product.baseUrl, product.production)
  const timeAt = await Copies.fillLog(product.database.url("postgres"), count)
  const realm = { tenantId: tenantIdOf(product.production), environment: product.production.environment }
  const key = Redacted.make(Buffer.from(product.variables["MAILROOM_SEALING_KEYS"]!.slice("1:".length), "base64"))
  const crypto = await Effect.runPromise(Effect.provide(Crypto, NodeCrypto.layer({ sealingKeys: [{ version: 1, key }] })))

  /** A page from anywhere in the middle half, so that no page is always the one that was read last. */
  const anyPage = (): string => {
    const position = Math.floor(count * (0.25 + chance() / 2))
    const place = { position: BigInt(position), occurredAt: timeAt(position) }
    return `/v1/events?limit=${limit}&cursor=${Effect.runSync(Events.cursorAt(crypto, realm, place))}`
  }
  const page = await call(product.baseUrl, product.production.apiKey, "GET", anyPage())
  if (page?.json["items"]?.length !== limit) throw new Error(`void: not a page: ${page?.status} ${JSON.stringify(page?.json).slice(0, 200)}`)
  return { product, anyPage }
}

type Side = Awaited<ReturnType<typeof open>>

const load = ({ product }: Side, path: () => string): Promise<Figures> =>
  run({
    base: new URL(product.baseUrl),
    cpu: product.cpu,
    connections,
    durationMs,
    expected: 200,
    request: () => ({ method: "GET", path: path(), headers: { authorization: `Bearer ${product.production.apiKey}` } })
  })

const [small, big] = await Promise.all([open(few), open(many)])
try {
  await turn()
  const first = () => `/v1/events?limit=${limit}`
  const rounds = await inRounds(async () => ({
    small: await load(small, small.anyPage),
    big: await load(big, big.anyPage),
    smallFirst: await load(small, first),
    bigFirst: await load(big, first)
  }), [small, big].map((side) => () => load(side, side.anyPage)))
  const of = (key: keyof Figures) => ratios(rounds, ({ big }) => big[key], ({ small }) => small[key])
  const figures = (name: string, side: keyof (typeof rounds)[number]) => [
    { name: `${name}: p50`, unit: "ms", values: rounds.map((round) => round[side].p50Ms) },
    { name: `${name}: p99`, unit: "ms", values: rounds.map((round) => round[side].p99Ms) },
    { name: `${name}: CPU, app and Postgres`, unit: "µs a page", values: rounds.map((round) => round[side].cpuMicros) }
  ]
  report({
    name: "events",
    about: `GET /v1/events, ${limit} a page from the middle of the log, ${connections} connections, with ${many} events in it beside ${few}.`,
    ratios: [
      { path: `${many} events beside ${few}: p50`, better: "lower", floor: 1.5, goal: 1.2, values: of("p50Ms") },
      { path: `${many} events beside ${few}: p99`, better: "lower", floor: 3, goal: 2, values: of("p99Ms") }
    ],
    figures: [
      ...figures(`${few} events`, "small"),
      ...figures(`${many} events`, "big"),
      ...figures(`${few} events, the first page`, "smallFirst"),
      ...figures(`${many} events, the first page`, "bigFirst")
    ]
  })
} finally {
  for (const { product } of [small, big]) await product.stop()
}
