/** What the doctor finds: one finding a line, each with what to do about it, told as soon as it is known. */
import { Effect } from "effect"
import { oneLine, visible } from "../TerminalText.ts"

export type Status = "ok" | "warn" | "fail"

export interface Finding {
  readonly check: string
  readonly status: Status
  readonly message: string
  /** What to do; null: nothing. */
  readonly advice: string | null
}

export interface Reader {
  /** A check has begun that may take a while. */
  readonly began: (check: string) => Effect.Effect<void>
  readonly found: (finding: Finding) => Effect.Effect<void>
}

/** One check's way to speak. */
export interface Voice {
  readonly ok: (message: string) => Effect.Effect<void>
  readonly warn: (message: string, advice: string) => Effect.Effect<void>
  readonly fail: (message: string, advice: string) => Effect.Effect<void>
}

export const voice = (check: string, { found }: Reader): Voice => ({
  ok: (message) => found({ check, status: "ok", message, advice: null }),
  warn: (message, advice) => found({ check, status: "warn", message, advice }),
  fail: (message, advice) => found({ check, status: "fail", message, advice })
})

/** A check that cannot hang, nor break the others. */
export const bounded = <E, R>(self: Effect.Effect<void, E, R>, says: Voice): Effect.Effect<void, never, R> =>
  self.pipe(
    Effect.timeoutOrElse({ duration: patience, orElse: () => says.fail("no end within 60 seconds", "Look at what it waits for: a firewall, or a server that hangs.") }),
    unbroken(says)
  )

/** A check that cannot break the others, where something else bounds its time. */
export const unbroken =
  (says: Voice) =>
  <E, R>(self: Effect.Effect<void, E, R>): Effect.Effect<void, never, R> =>
    Effect.catchCause(self, (cause) => says.fail("the check itself broke", String(cause).split("\n")[0]!))

const patience = "60 seconds"

/** For a person. Servers' own words are in it, of as many lines as they like. */
export const line = ({ check, status, message, advice }: Finding): string =>
  [
    `${words[status]} ${check.padEnd(12)} ${within(message)}`,
    ...(advice === null ? [] : [`${" ".repeat(6 + 12 + 1)}→ ${within(advice)}`])
  ].join("\n")

const within = (text: string): string => oneLine(text.replaceAll("\r\n", "\n"))

/** For a machine. */
export const document = (finding: Finding): string => visible(JSON.stringify(finding))

const words: Record<Status, string> = { ok: "ok   ", warn: "warn ", fail: "FAIL " }
