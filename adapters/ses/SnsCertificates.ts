/**
 * The certificates that SNS signs with. They come from one host only, whose
 * own certificate TLS verifies, through a transport that vets where it goes. A
 * few are kept; and because the URL stands in a request that nobody has
 * verified yet, only so many are fetched in a minute.
 */
import { Clock, Duration, Effect, Option, Result, Semaphore } from "effect"
import { X509Certificate, type KeyObject } from "node:crypto"
import type { Millis } from "../../core/model/Ids.ts"
import { webhookDeadline } from "../../core/model/Limits.ts"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import { IntakeRefused, IntakeUnavailable } from "../../core/ports/NotificationIntake.ts"
import type { WebhookTransport } from "../../core/ports/WebhookTransport.ts"

/** With the name of a region: `sns.s3.amazonaws.com` is a bucket, and anybody's. */
const host = /^sns\.(?:[a-z]{2}(?:-[a-z]+){1,3}-\d{1,2}\.amazonaws\.com(?:\.cn)?|eusc-[a-z]{2}-[a-z]+-\d{1,2}\.amazonaws\.eu)$/
const certificatePath = /^\/SimpleNotificationService-[A-Za-z0-9._-]{1,128}\.pem$/

const keptMax = 16
const fetchesPerMinute = 10

/** A URL of SNS itself; null if it is not. */
export const parseSnsUrl = (text: string): { readonly url: URL; readonly target: WebhookUrl.WebhookTarget } | null => {
  const target = Result.getOrNull(WebhookUrl.parse(text, WebhookUrl.publicOnly))
  return target !== null && host.test(target.host) && target.port === 443 ? { url: new URL(target.href), target } : null
}

interface Certificate {
  readonly key: KeyObject
  readonly from: Millis
  readonly to: Millis
}

export interface SnsCertificates {
  /** The key of the certificate at a URL. Refused, unless it is SNS's, and valid now. */
  readonly keyAt: (url: string) => Effect.Effect<KeyObject, IntakeRefused | IntakeUnavailable>
}

const badSignature = new IntakeRefused({ reason: "bad_signature" })

export const make = (transport: typeof WebhookTransport.Service): SnsCertificates => {
  const kept = new Map<string, Certificate>()
  const turn = Semaphore.makeUnsafe(1)
  let fetched: ReadonlyArray<Millis> = []

  const fetch = Effect.fnUntraced(function* (target: WebhookUrl.WebhookTarget) {
    const now = yield* Clock.currentTimeMillis
    fetched = fetched.filter((at) => at > now - 60_000 && at <= now)
    if (fetched.length >= fetchesPerMinute) return yield* new IntakeUnavailable({ cause: new Error("too many certificates were fetched") })
    fetched = [...fetched, now]
    const answer = yield* transport.get({ target, headers: {} }).pipe(
      Effect.mapError((cause) => new IntakeUnavailable({ cause })),
      Effect.timeoutOption(Duration.millis(webhookDeadline))
    )
    if (Option.isNone(answer)) return yield* new IntakeUnavailable({ cause: new Error("the certificate did not come in time") })
    const { status, body, truncated } = answer.value
    if (status >= 500 || status === 429) return yield* new IntakeUnavailable({ cause: new Error(`the certificate's host answered ${status}`) })
    const certificate = status === 200 && !truncated ? certificateIn(body) : null
    if (certificate === null) return yield* badSignature
    const [oldest] = kept.keys()
    if (kept.size >= keptMax && oldest !== undefined) kept.delete(oldest)
    kept.set(target.href, certificate)
    return certificate
  })

  return {
    keyAt: Effect.fnUntraced(function* (text) {
      const parsed = parseSnsUrl(text)
      if (parsed === null || !certificatePath.test(parsed.url.pathname) || parsed.url.search !== "") return yield* badSignature
      const { target } = parsed
      const { key, from, to } =
        kept.get(target.href) ??
        // Who has waited may find it there.
        (yield* turn.withPermits(1)(Effect.suspend(() => Option.match(Option.fromUndefinedOr(kept.get(target.href)), { onNone: () => fetch(target), onSome: Effect.succeed }))))
      const now = yield* Clock.currentTimeMillis
      return now < from || now > to ? yield* badSignature : key
    })
  }
}

/** Null, if it is no certificate of an RSA key. */
const certificateIn = (pem: Uint8Array): Certificate | null =>
  Result.getOrNull(
    Result.try(() => {
      const { publicKey, validFromDate, validToDate } = new X509Certificate(pem)
      if (publicKey.asymmetricKeyType !== "rsa") throw new Error("SNS signs with RSA")
      return { key: publicKey, from: validFromDate.getTime(), to: validToDate.getTime() }
    })
  )
