/** What a request counts against, and where its counters stand: the words that limiters have in common. */
import type { Millis } from "./Ids.ts"

export interface Guard<Scope extends string = "ip" | "key" | "tenant_day"> {
  /** Whose counter it is, in the words of the error's `scope`. */
  readonly scope: Scope
  /** Counters with equal scope and bucket are one, whatever the limit. A call names each once, and never in both windows. */
  readonly bucket: string
  readonly limit: number
  readonly window: "minute" | "day"
}

export interface Standing<Scope extends string = Guard["scope"]> {
  readonly guard: Guard<Scope>
  /** How many more would be accepted now. */
  readonly remaining: number
  /**
   * Until one more would be accepted, of a guard that refuses: at least 1. Of any other, whether or not the request was
   * accepted, until its counter is at its start again.
   */
  readonly resetMs: Millis
}

export interface Taken<Scope extends string = Guard["scope"]> {
  readonly refusedBy: Standing<Scope> | null
  /** One per guard, in order. */
  readonly standings: ReadonlyArray<Standing<Scope>>
}
