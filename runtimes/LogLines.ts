/**
 * The log: JSON lines on standard error. A write waits for whoever reads it,
 * so lines that nobody is waiting for go out together, some milliseconds late;
 * warnings and errors go at once, with all that was said before them.
 */
import { Effect, Formatter, Layer, Logger, LogLevel } from "effect"
import { clearTimeout, setTimeout } from "node:timers"

/** How late a line may be, in milliseconds. */
const lateMs = 20
/** Characters that are held at most. */
const heldMax = 64 * 1024

type Entry = typeof Logger.formatStructured extends Logger.Logger<unknown, infer Output> ? Output : never

const isPlain = (value: unknown): boolean => value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean"

/** The same text either way; what holds nothing but plain values needs no look at what may be secret, or circular. */
const lineOf = (entry: Entry): string =>
  isPlain(entry.message) && entry.cause === undefined && Object.values(entry.annotations).every(isPlain)
    ? JSON.stringify(entry)
    : Formatter.formatJson(entry)

export const make = (write: (lines: string) => void): { readonly logger: Logger.Logger<unknown, void>; readonly flush: () => void } => {
  let held = ""
  let timer: NodeJS.Timeout | null = null
  const flush = () => {
    if (timer !== null) clearTimeout(timer)
    timer = null
    const lines = held
    held = ""
    if (lines !== "") write(lines)
  }
  const logger = Logger.make<unknown, void>((options) => {
    held += `${lineOf(Logger.formatStructured.log(options))}\n`
    if (held.length >= heldMax || LogLevel.isGreaterThanOrEqualTo(options.logLevel, "Warn")) flush()
    // @effect-diagnostics-next-line globalTimers:off -- a logger runs outside of any fiber, and lines are late in real time
    else timer ??= setTimeout(flush, lateMs).unref()
  })
  return { logger, flush }
}

/** On standard error, to the last line that is said before the process ends. */
export const layer: Layer.Layer<never> = Layer.unwrap(
  Effect.sync(() => {
    const { logger, flush } = make((lines) => void process.stderr.write(lines))
    process.once("exit", flush)
    return Logger.layer([logger])
  })
)
