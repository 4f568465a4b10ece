/**
 * The log: JSON lines on standard error. A write waits for whoever reads it,
 * so lines that nobody is waiting for go out together, some milliseconds late;
 * warnings and errors go at once, with all that was said before them.
 */
import { Effect, Formatter, Layer, Logger, LogLevel, References } from "effect"
import { clearTimeout, setTimeout } from "node:timers"

/** How late a line may be, in milliseconds. */
const lateMs = 20
/** Characters that are held at most. */
const heldMax = 64 * 1024

const isPlain = (value: unknown): boolean => value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean"

/** Effect's own line. What holds nothing but plain values needs no look at what may be secret, or circular, and no copy. */
const lineOf = (options: Logger.Options<unknown>): string => plainLineOf(options) ?? Formatter.formatJson(Logger.formatStructured.log(options))

/** Null if something in it is not plain. */
const plainLineOf = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>): string | null => {
  const said: unknown = Array.isArray(message) && message.length === 1 ? message[0] : message
  if (!isPlain(said) || cause.reasons.length > 0 || fiber.getRef(References.CurrentLogSpans).length > 0) return null
  const annotations = fiber.getRef(References.CurrentLogAnnotations)
  for (const name in annotations) if (!isPlain(annotations[name])) return null
  return JSON.stringify({
    message: said,
    level: logLevel.toUpperCase(),
    timestamp: date.toISOString(),
    annotations,
    spans: {},
    fiberId: `#${fiber.id}`
  })
}

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
    held += `${lineOf(options)}\n`
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
