/** The verbs that run: `dev`, `serve`, `worker`, `smtp`, and `migrate`. Every adapter comes with them, so each is loaded when it is asked for. */
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { setFlagsFromString } from "node:v8"
import { print, untilClosed } from "./Streams.ts"

/**
 * V8 puts objects among the old at once that it has seen to live for long, judging by where they are made. Here those are
 * whatever a wait has in hand, of which a burst of requests outlives a collection and the next one does not. Dead among the
 * old, each holds what was made for its request until the whole heap is collected, so that a quarter of all that is made is
 * copied twice. It is decided in the first seconds, for good, in one process and not in the next, and is a quarter of its time.
 */
export const noPretenuring = "--no-allocation-site-pretenuring"

/**
 * Whatever bytes go through a process, sockets and the driver hold them outside of V8's heap, several times over. By itself V8
 * collects the whole heap for each 64 MB of these, whose bytes died long ago: a third of the time of whoever reads or sends a
 * large attachment. Counted with the heap, they wait for it to grow as it otherwise would.
 */
export const oneHeap = "--external-memory-accounted-in-global-limit"

const runsLong = Effect.sync(() => {
  process.exitCode = 0 // being told to stop is no failure
  setFlagsFromString(noPretenuring)
  setFlagsFromString(oneHeap)
})

/**
 * A worker's heap grows by half of what is in use before it is collected, where V8 would let it become several times that:
 * with a hundred messages under way, much outlives a young collection that is garbage a moment later.
 */
export const workerHeap = "--heap-growing-percent=50"

export const devCommand = Command.make(
  "dev",
  {
    data: Flag.String("data").pipe(
      Flag.withDescription("The folder for the database, the keys and dev.json (default .mailroom)"),
      Flag.optional
    ),
    port: Flag.Int("port").pipe(
      Flag.withDescription("The port to listen on; 0 for any free one (default 3025)"),
      Flag.optional
    ),
    memory: Flag.Boolean("memory").pipe(
      Flag.withDescription("Keep mail in memory alone: nothing of it is left when it stops"),
      Flag.withDefault(false)
    )
  },
  Effect.fnUntraced(function* ({ data, port, memory }) {
    yield* runsLong
    const { dev } = yield* Effect.promise(() => import("../dev/main.ts"))
    return yield* dev({ data: Option.getOrNull(data), port: Option.getOrNull(port), memory })
  })
).pipe(
  Command.withDescription("Everything in one process, with a sandbox, a key and a mailbox. Keeps its data in a folder. Stops at Ctrl-C."),
  Command.withExamples([
    { command: "mailroom dev --data ./elsewhere --port 4000", description: "Another folder and port" },
    { command: "DATABASE_URL=postgres://… mailroom dev", description: "On a database of yours, which it migrates" }
  ])
)

export const serveCommand = Command.make(
  "serve",
  {},
  Effect.fnUntraced(function* () {
    yield* runsLong
    const { serve } = yield* Effect.promise(() => import("../serve/main.ts"))
    return yield* serve
  })
).pipe(Command.withDescription("The HTTP API on the database of MAILROOM_DATABASE_URL. Run as many as you like. SIGTERM drains."))

export const workerCommand = Command.make(
  "worker",
  {},
  Effect.fnUntraced(function* () {
    yield* runsLong
    setFlagsFromString(workerHeap)
    const { worker } = yield* Effect.promise(() => import("../worker/main.ts"))
    return yield* worker
  })
).pipe(
  Command.withDescription("Submits mail, reads what came in, delivers webhooks, scans attachments, checks domains, and keeps house, on the same database. Run as many as you like. SIGTERM drains.")
)

export const smtpCommand = Command.make(
  "smtp",
  {},
  Effect.fnUntraced(function* () {
    yield* runsLong
    const { smtp } = yield* Effect.promise(() => import("../smtp/main.ts"))
    return yield* smtp
  })
).pipe(Command.withDescription("Takes mail in, by SMTP and LMTP, on the same database. Run as many as you like. SIGTERM drains."))

export const migrateCommand = Command.make(
  "migrate",
  { json: Flag.Boolean("json").pipe(Flag.withDescription("JSON: {applied}"), Flag.withDefault(false)) },
  Effect.fnUntraced(function* ({ json }) {
    const { migrate } = yield* Effect.promise(() => import("../migrate/main.ts"))
    const { applied } = yield* migrate
    const lines = json ? [JSON.stringify({ applied })] : applied.length === 0 ? ["nothing to do"] : applied.map((name) => `took ${name}`)
    yield* untilClosed(print(lines.map((line) => `${line}\n`).join("")))
  })
).pipe(Command.withDescription("Brings the tables of MAILROOM_DATABASE_URL up to date: forward only, safe to repeat, while other processes run"))
