/** `mailroom plan`: what tenants may use. */
import { Effect, type Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { Plan } from "../../core/model/Limits.ts"
import { Management } from "../../core/operations/Management.ts"
import { usage } from "./CommandFailed.ts"
import { given, json } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { printPage, printRecord } from "./Output.ts"

const shown = ({ id, keyRequestsPerMinute, tenantRequestsPerDay, recipientsPerDay }: Plan) => ({
  id,
  keyRequestsPerMinute,
  tenantRequestsPerDay,
  recipientsPerDay
})

const id = Argument.String("id").pipe(Argument.withDescription("The id of the plan, such as standard"))

const number = (name: string, about: string) => Flag.Int(name).pipe(Flag.withDescription(about), Flag.optional)

const numbers = {
  keyRequestsPerMinute: number("key-requests-per-minute", "Requests of one key in any 60 seconds"),
  tenantRequestsPerDay: number("tenant-requests-per-day", "Requests of a tenant in a day (UTC)"),
  recipientsPerDay: number("recipients-per-day", "Recipients that a tenant may send to in a day (UTC)")
}

const numbersOf = (flags: { readonly [N in keyof typeof numbers]: Option.Option<number> }) => ({
  ...given("keyRequestsPerMinute", flags.keyRequestsPerMinute),
  ...given("tenantRequestsPerDay", flags.tenantRequestsPerDay),
  ...given("recipientsPerDay", flags.recipientsPerDay)
})

const create = Command.make(
  "create",
  { id, ...numbers, by, json },
  operating(Effect.fnUntraced(function* ({ id, by, json, ...flags }) {
    const { createPlan } = yield* Management
    yield* printRecord(json, shown(yield* createPlan(actorOf(by), { id, ...numbersOf(flags) })))
  }))
).pipe(
  Command.withDescription("Creates a plan. The numbers of free, standard and scale may be left out: they are the specification's."),
  Command.withExamples([
    { command: "mailroom plan create standard" },
    { command: "mailroom plan create trial --key-requests-per-minute 30 --tenant-requests-per-day 500 --recipients-per-day 50" }
  ])
)

const list = Command.make(
  "list",
  { json },
  operating(Effect.fnUntraced(function* ({ json }) {
    const items = yield* Management.use(({ listPlans }) => listPlans)
    const columns = ["id", "keyRequestsPerMinute", "tenantRequestsPerDay", "recipientsPerDay"]
    yield* printPage(json, { items, hasMore: false }, shown, columns, ({ id }) => id)
  }))
).pipe(Command.withDescription("Lists plans"))

const show = Command.make(
  "show",
  { id, json },
  operating(Effect.fnUntraced(function* ({ id, json }) {
    const { getPlan } = yield* Management
    yield* printRecord(json, shown(yield* getPlan(id)))
  }))
).pipe(Command.withDescription("Shows a plan"))

const update = Command.make(
  "update",
  { id, ...numbers, by, json },
  operating(Effect.fnUntraced(function* ({ id, by, json, ...flags }) {
    const { updatePlan } = yield* Management
    const changed = numbersOf(flags)
    if (Object.keys(changed).length === 0) return yield* usage("plan update wants at least one of its numbers")
    yield* printRecord(json, shown(yield* updatePlan(actorOf(by), id, changed)))
  }))
).pipe(Command.withDescription("Changes a plan's numbers, in force at the next request of each tenant on it"))

export const planCommand = Command.make("plan").pipe(
  Command.withDescription("What tenants may use: limits of requests and recipients"),
  Command.withSubcommands([create, list, show, update])
)
