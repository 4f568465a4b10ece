import { Effect, Layer } from "effect"
import { suite } from "../../conformance/MailProvider.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as SandboxMailProvider from "./SandboxMailProvider.ts"

conforms("SandboxMailProvider", suite({ provider: Effect.sync(() => SandboxMailProvider.make()) }), Layer.empty)
