/** Flags and arguments that several management commands share, and how their text is read. What it must be beyond that, the core says. */
import { Clock, Effect, Option, Result, Schema } from "effect"
import { Argument, Flag } from "effect/cli"
import * as Address from "../../core/model/Address.ts"
import { Uuid, type Millis, type TenantId } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { type CommandFailed, usage } from "./CommandFailed.ts"

export const json = Flag.Boolean("json").pipe(Flag.withDescription("One JSON document"), Flag.withDefault(false))

export const tenantFlag = Flag.String("tenant").pipe(Flag.withAlias("t"), Flag.withDescription("The id of the tenant"))

export const idArgument = (about: string) => Argument.String("id").pipe(Argument.withDescription(about))

export const optionalText = (name: string, about: string) =>
  Flag.String(name).pipe(Flag.withDescription(about), Flag.optional)

/** A flag that may be repeated, or left out. The default says the latter; without one, its documentation has it as required. */
export const anyNumberOf = (name: string, about: string) =>
  Flag.String(name).pipe(Flag.withDescription(about), Flag.atLeast(0), Flag.withDefault<ReadonlyArray<string>>([]))

export const ifVersion = Flag.Int("if-version").pipe(
  Flag.withDescription("Only if the record is at this version still; else exit code 4"),
  Flag.optional
)

export const page = {
  limit: Flag.Int("limit").pipe(Flag.withDescription("At most so many, up to 1000 (default 100)"), Flag.optional),
  after: Flag.String("after").pipe(Flag.withDescription("Those behind the one of this id"), Flag.optional)
}

/** Of a list that grows while it is read: an item's number never changes. */
export const trail = {
  limit: page.limit,
  after: Flag.String("after").pipe(Flag.withDescription("Those before the item of this number; each page says how to go on"), Flag.optional)
}

/** The members that were given, for inputs whose members may be absent. */
export const given = <const Name extends string, A>(name: Name, option: Option.Option<A>): { readonly [N in Name]?: A } =>
  Option.isNone(option) ? {} : ({ [name]: option.value } as { readonly [N in Name]: A }) // its one member

export const pageQuery = (flags: { readonly limit: Option.Option<number>; readonly after: Option.Option<string> }) => ({
  ...given("limit", flags.limit),
  ...given("after", flags.after)
})

/** An id, of whatever kind the place asks for. */
export const idOf = <Id extends string>(name: string, text: string): Effect.Effect<Id, CommandFailed> =>
  Result.match(Schema.decodeUnknownResult(Uuid)(text), {
    onFailure: () => Effect.fail(usage(`${name} wants a UUID, and got ${JSON.stringify(shortened(text))}`)),
    onSuccess: (id) => Effect.succeed(id as Id) // a UUID is any of them
  })

export const optionalIdOf = <const Name extends string, Id extends string>(
  name: Name,
  flag: string,
  option: Option.Option<string>
): Effect.Effect<{ readonly [N in Name]?: Id }, CommandFailed> =>
  Option.isNone(option) ? Effect.succeed({}) : Effect.map(idOf<Id>(flag, option.value), (id) => given(name, Option.some(id)))

export const tenantOf = (text: string) => idOf<TenantId>("--tenant", text)

export const domainName = (text: string): Effect.Effect<Address.DomainName, CommandFailed> => parsed(text, Address.parseDomain(text))

export const address = (text: string): Effect.Effect<Address.Address, CommandFailed> => parsed(text, Address.parse(text))

export const optionalAddress = <const Name extends string>(
  name: Name,
  option: Option.Option<string>
): Effect.Effect<{ readonly [N in Name]?: Address.Address }, CommandFailed> =>
  Option.isNone(option) ? Effect.succeed({}) : Effect.map(address(option.value), (value) => given(name, Option.some(value)))

const parsed = <A>(text: string, result: Result.Result<A, string>): Effect.Effect<A, CommandFailed> =>
  Effect.fromResult(Result.mapError(result, (fault) => usage(`${JSON.stringify(shortened(text))}: ${fault}`)))

const units: Readonly<Record<string, Millis>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 }

const durationIn = (text: string): Millis | null => {
  const match = /^(\d+)([smhdw])$/.exec(text)
  return match === null ? null : Number(match[1]) * units[match[2]!]!
}

export const durationOf = (flag: string, text: string): Effect.Effect<Millis, CommandFailed> => {
  const duration = durationIn(text)
  return duration === null
    ? Effect.fail(usage(`${flag} wants a duration such as 30m, 24h or 7d, and got ${JSON.stringify(shortened(text))}`))
    : Effect.succeed(duration)
}

/** A date-time with an offset. */
export const timeOf = (flag: string, text: string): Effect.Effect<Millis, CommandFailed> =>
  Option.match(Timestamp.toMicros(text), {
    onNone: () => Effect.fail(usage(`${flag} wants a date-time such as 2027-01-31T12:00:00Z, and got ${JSON.stringify(shortened(text))}`)),
    onSome: (micros) => Effect.succeed(Number(micros / 1000n))
  })

/** A date-time, a duration from now, or `never`, which is null. */
export const expiryOf = (flag: string, text: string): Effect.Effect<Millis | null, CommandFailed> => {
  if (text === "never") return Effect.succeed(null)
  const duration = durationIn(text)
  if (duration !== null) return Effect.map(Clock.currentTimeMillis, (now) => now + duration)
  return Effect.mapError(timeOf(flag, text), () =>
    usage(
      `${flag} wants a date-time such as 2027-01-31T12:00:00Z, a duration from now such as 90d, or never, and got ${JSON.stringify(shortened(text))}`
    )
  )
}

const shortened = (text: string): string => (text.length > 100 ? `${text.slice(0, 100).toWellFormed()}…` : text)
