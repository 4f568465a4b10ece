/**
 * Traces, joined without a stored trace context: all that happens to a message
 * from its acceptance on is one trace, whose id is the message's id without
 * its dashes, in whichever process and after however many restarts. The same
 * holds for an attachment's scan, and for a delivery of what is about no message.
 *
 * Where no tracer is provided nothing here costs more than a look. No span
 * holds a secret, a body, a subject, an address or a URL.
 */
import { Clock, Context, Effect, Exit, Fiber, Tracer } from "effect"

/** What spans are told apart by; ids, names from our own lists, and numbers. */
export type Attributes = { readonly [K in `mailroom.${string}` | "http.response.status_code"]?: string | number | boolean }

/** The ids that a span is to have, for a tracer that can give them. */
export const Identity = Context.Reference<{ readonly traceId: string; readonly spanId: string } | null>(
  "mailroom/core/Tracing/Identity",
  { defaultValue: () => null }
)

/** A UUID is 16 bytes, and so is a trace's id. */
export const traceIdOf = (id: string): string => id.replaceAll("-", "")

/** The first span of a resource's trace. The last 8 bytes of a UUID of version 7 are chance. */
export const rootOf = (id: string): Tracer.ExternalSpan => {
  const traceId = traceIdOf(id)
  return Tracer.externalSpan({ traceId, spanId: traceId.slice(16), sampled: true })
}

type AnyFiber = Fiber.Fiber<unknown, unknown>
type AnyOperation = (...given: ReadonlyArray<never>) => Effect.Effect<unknown, unknown, unknown>

/** Whether anybody takes spans. */
export const isTraced = ({ cache: { tracer, tracerEnabled } }: AnyFiber): boolean =>
  tracerEnabled && tracer !== undefined && tracer !== Tracer.nativeTracer

type Kind = "internal" | "client"

const beneath = <A, E, R>(self: Effect.Effect<A, E, R>, parent: Tracer.AnySpan) =>
  Effect.provideService(self, Tracer.ParentSpan, parent) as Effect.Effect<A, E, R> // nobody asks for a parent span

const spanned = <A, E, R>(self: Effect.Effect<A, E, R>, name: string, options: Tracer.SpanOptionsNoTrace) =>
  Effect.useSpan(name, options, (span) => beneath(self, span))

/** A span beneath the current one, where there is one. */
export const span =
  (name: string, kind: Kind = "internal", attributes: Attributes = {}) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) =>
      fiber.cache.span !== undefined && isTraced(fiber) ? spanned(self, name, { kind, attributes }) : self
    )

/**
 * An operation with a span of its own, as `Effect.fn` makes one, for what runs with every request or job: `Effect.fn`
 * takes a stack trace and makes a span for each call, whether or not anybody takes spans.
 */
export const fn = (name: string): Effect.fn.Untraced => {
  const traced = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => (isTraced(fiber) ? spanned(self, name, {}) : self))
  // The compiler cannot see that the span changes no type, whatever is piped before it. It is not one more of what is piped,
  // for each of these is handed the arguments once more, and that takes longer than all else here.
  return ((...definition: ReadonlyArray<unknown>) => {
    const untraced = (Effect.fnUntraced as (...all: ReadonlyArray<unknown>) => AnyOperation)(...definition)
    return (...given: ReadonlyArray<never>) => traced(untraced(...given))
  }) as Effect.fn.Untraced
}

/** Puts all spans within into the trace of a resource, beneath its first one, with these attributes. */
export const within =
  (id: string, attributes: Attributes) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => (isTraced(fiber) ? Effect.annotateSpans(beneath(self, rootOf(id)), attributes) : self))

/**
 * A span in the trace of a resource: beneath the current one if that is in it, else beneath its first one, and linked to
 * what it came from. All spans within carry the attributes.
 */
export const spanOf =
  (id: string, name: string, attributes: Attributes) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      if (!isTraced(fiber)) return self
      const current = fiber.cache.span
      const isInside = current?.traceId === traceIdOf(id)
      return Effect.annotateSpans(spanned(self, name, isInside ? {} : { parent: rootOf(id), links: linksTo(current) }), attributes)
    })

/**
 * The first span of a resource's trace, for as long as the effect takes that makes the resource, and linked to what made
 * it. If the effect fails, or has not made it, there is no resource, and no span.
 */
export const first =
  <A>(id: string, name: string, attributes: Attributes, isMade: (made: A) => boolean = () => true) =>
  <E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      if (!isTraced(fiber)) return self
      const root = rootOf(id)
      const options: Tracer.SpanOptionsNoTrace = {
        // A tracer that gives ids by itself puts it beneath that root, into the right trace all the same.
        parent: root,
        annotations: Context.make(Identity, root),
        links: linksTo(fiber.cache.span),
        kind: "producer",
        attributes
      }
      return Effect.flatMap(Effect.makeSpan(name, options), (span) =>
        Effect.tap(self, (made) =>
          Effect.map(Clock.currentTimeNanos, (now) => {
            if (isMade(made)) span.end(now, Exit.void)
          })
        )
      )
    })

/** Says more about the current span. */
export const annotate = (attributes: Attributes): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    const current = fiber.cache.span
    if (current?._tag === "Span" && isTraced(fiber)) {
      for (const [key, value] of Object.entries(attributes)) current.attribute(key, value)
    }
    return Effect.void
  })

/** A link to the outermost span of this process, such as the request's. */
const linksTo = (span: Tracer.AnySpan | undefined): ReadonlyArray<Tracer.SpanLink> => {
  if (span === undefined) return []
  let outermost = span
  while (outermost._tag === "Span" && outermost.parent._tag === "Some" && outermost.parent.value._tag === "Span") {
    outermost = outermost.parent.value
  }
  return [{ span: outermost, attributes: {} }]
}
