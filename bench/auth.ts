/**
 * What callers with known keys notice while others try secrets of a known
 * public id as fast as they are let, each of which costs an Argon2id hash:
 * beside the same without them, in turn.
 */
import { Option, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import * as ApiKeys from "../core/model/ApiKey.ts"
import * as Deployment from "./Deployment.ts"
import { run, type Figures } from "./Load.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"

const durationMs = scale.of(1_500, 0)
const known = 8
const unknown = 8

const product = await Deployment.open({ measuresCommits: false })
try {
  await turn()
  const { publicId } = Option.getOrThrow(ApiKeys.parse(product.sandbox.apiKey))
  const guess = () => Redacted.value(ApiKeys.withPublicId("sandbox", publicId, randomBytes(24)).text)
  const load = (connections: number, key: () => string, expected: ReadonlyArray<number>, cpu: () => number): Promise<Figures> =>
    run({
      base: new URL(product.baseUrl),
      cpu,
      connections,
      durationMs,
      expected,
      request: () => ({ method: "GET", path: "/v1/mailboxes", headers: { authorization: `Bearer ${key()}` } })
    })
  const callers = () => load(known, () => product.sandbox.apiKey, [200], product.cpu)
  // 503: so many hashes are under way that no more are begun.
  const together = () => Promise.all([callers(), load(unknown, guess, [401, 503], () => 0)])
  const rounds = await inRounds(async () => {
    const without = await callers()
    const [during, refused] = await together()
    return { without, during, refused }
  }, [together])
  const of = (who: keyof (typeof rounds)[number], key: keyof Figures) => rounds.map((round) => round[who][key])
  const ratioOf = (key: keyof Figures) => ratios(rounds, ({ during }) => during[key], ({ without }) => without[key])
  report({
    name: "auth",
    about: `GET /v1/mailboxes over ${known} connections with a known key, while ${unknown} others send wrong secrets without pause, beside the same without those.`,
    ratios: [{ path: "known keys' p99 while others are hashed", better: "lower", floor: 4, goal: 2, values: ratioOf("p99Ms") }],
    figures: [
      { name: "known, without: p99", unit: "ms", values: of("without", "p99Ms") },
      { name: "known, during: p99", unit: "ms", values: of("during", "p99Ms") },
      { name: "known, without: p50", unit: "ms", values: of("without", "p50Ms") },
      { name: "known, during: p50", unit: "ms", values: of("during", "p50Ms") },
      { name: "known, without: rate", unit: "requests/s", values: of("without", "perSecond") },
      { name: "known, during: rate", unit: "requests/s", values: of("during", "perSecond") },
      { name: "wrong secrets", unit: "refused/s", values: of("refused", "perSecond") }
    ]
  })
} finally {
  await product.stop()
}
