/**
 * Makes spans, and hands each that has ended on, as OTLP has it. What leaves
 * here is bounded on purpose: attributes of our own and HTTP's and databases'
 * names only, no events, and of a failure its kind alone, because messages,
 * stacks and the causes of drivers hold what is no trace's business. They are
 * in the log, which joins by message id and request id.
 */
import { Cause, Context, Exit, Option, Tracer } from "effect"
import * as Hex from "effect/encoding/Hex"
import * as OtlpResource from "effect/observability/OtlpResource"
import type * as OtlpTracer from "effect/observability/OtlpTracer"
import { Identity } from "../core/Tracing.ts"

/** A span as OTLP has it. */
export type OtlpSpan = OtlpTracer.TraceData["resourceSpans"][number]["scopeSpans"][number]["spans"][number]

type Options = Parameters<Tracer.Tracer["span"]>[0]

/** Hands on each sampled span when it ends. */
export const make = (ended: (span: OtlpSpan) => void): Tracer.Tracer => Tracer.make({ span: (options) => new RecordedSpan(options, ended) })

/** A span of another tracer in this process is nobody's to see, and neither is what hangs beneath it. */
const isForeign = (span: Tracer.AnySpan): boolean => span._tag === "Span" && !(span instanceof RecordedSpan)

class RecordedSpan implements Tracer.Span {
  readonly _tag = "Span"
  readonly name: string
  readonly kind: Tracer.SpanKind
  readonly parent: Option.Option<Tracer.AnySpan>
  readonly annotations: Context.Context<never>
  readonly sampled: boolean
  readonly traceId: string
  readonly spanId: string
  readonly attributes = new Map<string, unknown>()
  readonly links: Array<Tracer.SpanLink>
  status: Tracer.SpanStatus
  readonly #ended: (span: OtlpSpan) => void

  constructor({ name, kind, parent, annotations, links, sampled, startTime }: Options, ended: (span: OtlpSpan) => void) {
    const identity = Context.get(annotations, Identity)
    this.name = name
    this.kind = kind
    this.annotations = annotations
    this.parent = identity === null ? parent : Option.none()
    this.sampled = sampled && !(identity === null && Option.exists(parent, isForeign))
    this.traceId = identity?.traceId ?? (Option.isSome(parent) ? parent.value.traceId : Hex.random(32))
    this.spanId = identity?.spanId ?? Hex.random(16)
    this.links = links.filter(({ span }) => !isForeign(span))
    this.status = { _tag: "Started", startTime }
    this.#ended = ended
  }

  attribute(key: string, value: unknown): void {
    this.attributes.set(key, value)
  }

  event(): void {}

  addLinks(links: ReadonlyArray<Tracer.SpanLink>): void {
    for (const link of links) if (!isForeign(link.span)) this.links.push(link)
  }

  end(endTime: bigint, exit: Exit.Exit<unknown, unknown>): void {
    if (this.status._tag === "Ended") return
    this.status = { _tag: "Ended", startTime: this.status.startTime, endTime, exit }
    if (this.sampled) this.#ended(encode(this, this.status))
  }
}

const kinds = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const satisfies { readonly [K in Tracer.SpanKind]: number }

/** Names of attributes that hold nothing of a caller's, whoever sets them. */
const shown = /^(?:mailroom\.|http\.(?:request\.method|route|response\.status_code)$|db\.(?:system|operation|collection)\b|error\.type$)/

const encode = (span: RecordedSpan, { startTime, endTime, exit }: Extract<Tracer.SpanStatus, { _tag: "Ended" }>): OtlpSpan => {
  const error = errorOf(span, exit)
  const attributes = [...span.attributes].filter(([key]) => shown.test(key))
  if (error !== null) attributes.push(["error.type", error])
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: Option.match(span.parent, { onNone: () => undefined, onSome: ({ spanId }) => spanId }),
    name: span.name,
    kind: kinds[span.kind],
    startTimeUnixNano: String(startTime),
    endTimeUnixNano: String(endTime),
    attributes: OtlpResource.entriesToAttributes(attributes),
    droppedAttributesCount: 0,
    events: [],
    droppedEventsCount: 0,
    status: error === null ? { code: 0 } : { code: 2 },
    links: span.links.map((link) => ({
      traceId: link.span.traceId,
      spanId: link.span.spanId,
      attributes: [],
      droppedAttributesCount: 0
    })),
    droppedLinksCount: 0
  }
}

/** The kind of failure; null if it is none. An interruption is none, and an answer to a request is one from 500 up. */
const errorOf = ({ kind, attributes }: RecordedSpan, exit: Exit.Exit<unknown, unknown>): string | null => {
  if (Exit.isSuccess(exit)) {
    const status = attributes.get("http.response.status_code")
    return kind === "server" && typeof status === "number" && status >= 500 ? String(status) : null
  }
  if (Cause.hasInterruptsOnly(exit.cause)) return null
  return kindOf(Cause.squash(exit.cause))
}

const word = /^[A-Za-z][A-Za-z0-9_]{0,63}$/

/** `CommitRejected.VersionMoved`, `TypeError`: names from the code, and nothing that anybody has said. */
const kindOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return "unknown"
  const tag = tagOf(error) ?? ("name" in error ? wordOf(error.name) : null) ?? "unknown"
  const reason = "reason" in error && typeof error.reason === "object" && error.reason !== null ? tagOf(error.reason) : null
  return reason === null ? tag : `${tag}.${reason}`
}

const tagOf = (value: object): string | null => ("_tag" in value ? wordOf(value._tag) : null)

const wordOf = (value: unknown): string | null => (typeof value === "string" && word.test(value) ? value : null)
