/** Takes mail in, over the deployment's database. What becomes of it behind the 250 is the workers'. */
import { Effect, Layer } from "effect"
import * as Adapters from "../Adapters.ts"
import * as Config from "../Config.ts"
import * as Inbound from "../Inbound.ts"
import { hostNameOf } from "../InboundHost.ts"
import { listenFault } from "../Listening.ts"
import * as Telemetry from "../Telemetry.ts"
import { untilStopped } from "../UntilStopped.ts"
import { version } from "../Version.ts"
import * as Health from "../worker/Health.ts"

/** Runs until it is interrupted. */
export const smtp = Effect.gen(function* () {
  const config = yield* Config.deployment("sealing keys")
  const core = Inbound.core(config).pipe(
    Layer.provideMerge(Adapters.layer(config, "smtp")),
    Layer.provide(Config.settingsLayer(config, Inbound.coreSettings(config)))
  )
  const listening = Layer.effectDiscard(
    Effect.gen(function* () {
      for (const { protocol, address } of yield* Inbound.listen(config)) {
        yield* Effect.logInfo("smtp: listening").pipe(Effect.annotateLogs({ protocol, address }))
      }
    })
  )
  const ready = Effect.annotateLogs(Effect.logInfo("smtp: ready"), { version, database: Adapters.placeOf(config), hostname: hostNameOf(config) })
  // In this order: who asks how it is learns that it listens once it does, and that it stops before it does.
  const taking = Health.layer(config, config.inboundHealthPort, "the listener's").pipe(Layer.provideMerge(listening), Layer.provideMerge(core))
  return yield* untilStopped("smtp", ready, taking).pipe(
    Effect.catchTag("ServeError", (error) =>
      Effect.fail(listenFault(config, config.inboundHealthPort, error, Config.settings.inboundHealthPort.name))
    ),
    Effect.provide(Layer.provideMerge(Telemetry.layer(config, "smtp"), Config.logLayer(config)))
  )
})
