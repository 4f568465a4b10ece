/** A check of this suite: it names the section of the specification that it proves. */
import { Effect, type Scope } from "effect"
import type { Check, Suite } from "../Suite.ts"
import type { Deployment } from "./Deployment.ts"
import type { Traffic } from "./Traffic.ts"

type Needs = Deployment | Traffic

export interface HttpCheck extends Check<Needs> {
  /** Where the specification says so. */
  readonly law: string
}

export interface HttpSuite extends Suite<Needs> {
  readonly checks: ReadonlyArray<HttpCheck>
}

export const check = (
  law: string,
  title: string,
  body: () => Effect.fn.Return<unknown, unknown, Needs | Scope.Scope>
): HttpCheck => ({ law, title, check: Effect.asVoid(Effect.gen(body)) })
