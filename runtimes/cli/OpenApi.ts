/** `mailroom openapi`: the contract as `serve` with these settings has it at `/openapi.yaml`, byte for byte, without a server. */
import { Effect, Result } from "effect"
import { Command, Flag } from "effect/cli"
import * as Config from "../Config.ts"
import { base } from "../ConfigValues.ts"
import { usage } from "./CommandFailed.ts"
import { anyNumberOf } from "./Inputs.ts"
import { print, untilClosed } from "./Streams.ts"

const printDocument = Effect.fnUntraced(
  function* ({ json, server }: { readonly json: boolean; readonly server: ReadonlyArray<string> }) {
    const bases = Result.all(server.map(base))
    // What it is told may hold a password.
    if (Result.isFailure(bases)) return yield* usage(`--server wants ${Config.settings.publicUrl.wants}`)
    // The generator is much to load for the commands beside this one.
    const Document = yield* Effect.promise(() => import("../http/Document.ts"))
    const document = Document.make(server.length > 0 ? bases.success : [yield* reached])
    yield* untilClosed(print(json ? `${JSON.stringify(document, null, 2)}\n` : yield* Document.toYaml(document)))
  }
)

/** Where clients reach a server of these settings. */
const reached = Effect.gen(function* () {
  const { host, port, publicUrl } = yield* Config.load(Config.environment())
  if (publicUrl !== null) return publicUrl
  const { formatUrlHostString } = yield* Effect.promise(() => import("effect/net/NetAddress"))
  return `http://${formatUrlHostString(host)}:${port}`
})

export const openApiCommand = Command.make(
  "openapi",
  {
    json: Flag.Boolean("json").pipe(Flag.withDescription("JSON instead of YAML"), Flag.withDefault(false)),
    server: anyNumberOf(
      "server",
      "An address at which clients reach the service; may be repeated (default: MAILROOM_PUBLIC_URL, or else where MAILROOM_HOST and MAILROOM_PORT have it listen)"
    )
  },
  printDocument
).pipe(
  Command.withDescription("Prints the OpenAPI 3.1 document that the service serves at /openapi.yaml"),
  Command.withExamples([{
    command: "mailroom openapi --server https://mail.example.com > openapi.yaml",
    description: "For a generator of clients"
  }])
)
