/**
 * What happens after a 202, over the deployment's database: relay, submissions, polls, deliveries, scans, reading mail
 * that came in, checks of domains, sweeps, retention.
 */
import { Effect, Layer } from "effect"
import * as Loops from "../../core/Loops.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import * as Adapters from "../Adapters.ts"
import * as Config from "../Config.ts"
import { listenFault } from "../Listening.ts"
import * as Outbound from "../Outbound.ts"
import * as SealedSecrets from "../SealedSecrets.ts"
import * as Telemetry from "../Telemetry.ts"
import { untilStopped } from "../UntilStopped.ts"
import { version } from "../Version.ts"
import * as Health from "./Health.ts"

/** Runs until it is interrupted. */
export const worker = Effect.gen(function* () {
  const config = yield* Config.deployment("sealing keys", "scanner")
  const jobs = Mailroom.jobs.pipe(
    Layer.provideMerge(Layer.merge(Adapters.layer(config, "worker"), Outbound.layer(config))),
    Layer.provide(Config.settingsLayer(config))
  )
  const ready = Effect.annotateLogs(Effect.logInfo("worker: ready"), { version, database: Adapters.placeOf(config), queue: config.queue })
  // In this order: who asks how it is learns that it stops, before it does.
  const working = Health.layer(config, config.workerPort, "the worker's").pipe(Layer.provideMerge(Loops.working), Layer.provideMerge(jobs))
  return yield* untilStopped("worker", Effect.andThen(SealedSecrets.report(config), ready), working).pipe(
    Effect.catchTag("ServeError", (error) => Effect.fail(listenFault(config, config.workerPort, error, Config.settings.workerPort.name))),
    Effect.provide(Layer.provideMerge(Telemetry.layer(config, "worker"), Config.logLayer(config)))
  )
})
