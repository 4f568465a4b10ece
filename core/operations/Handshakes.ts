/**
 * The handshake that makes a webhook endpoint (Spec 6): the receiver is sent a
 * challenge that nobody can guess, and echoes it. Whoever has a key can name
 * any host, so few are under way at a time.
 */
import { Clock, Data, Effect, Semaphore } from "effect"
import type { ApplicationId, TenantId } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import { hex } from "../model/SecretText.ts"
import * as Webhook from "../model/Webhook.ts"
import type { UrlFault, WebhookTarget } from "../model/WebhookUrl.ts"
import { Crypto } from "../ports/Crypto.ts"
import { postAnew, WebhookTransport } from "../ports/WebhookTransport.ts"
import * as Metrics from "../Metrics.ts"
import * as Tracing from "../Tracing.ts"
import type { Principal } from "./Access.ts"

/** 400: the URL may not be called, by its form or by where its name leads. */
export class InvalidWebhookUrl extends Data.TaggedError("InvalidWebhookUrl")<{
  /** Null: the name leads to an address that is not public; which one is not told. */
  readonly fault: UrlFault | null
}> {
  readonly reason = "unsafe_url"
  override get message(): string {
    const what = this.fault === null ? "its host does not lead to public addresses only" : urlFaults[this.fault]
    return `The URL cannot be a webhook endpoint: ${what}. Give an https URL of a public host, on port 443, or on one from 1024 up that is not known for another service.`
  }
}

const urlFaults: { readonly [F in UrlFault]: string } = {
  too_long: `it has more than ${Limits.webhookUrlLengthMax} characters`,
  malformed: "it is not a URL",
  scheme: "its scheme is not https",
  credentials: "it holds a user name or password",
  fragment: "it has a fragment",
  host: "its host cannot be called",
  port: "its port cannot be called",
  address: "its address is not public"
}

/** 400: the receiver did not echo the challenge. */
export class WebhookVerificationFailed extends Data.TaggedError("WebhookVerificationFailed")<{
  readonly reason: Webhook.HandshakeFault
}> {
  override get message(): string {
    return `The endpoint was not created: ${handshakeFaults[this.reason]}. Answer webhook.endpoint_verification within 5 seconds with 2xx and {"challenge": data.challenge}.`
  }
}

const handshakeFaults: { readonly [F in Webhook.HandshakeFault]: string } = {
  timeout: "the receiver did not answer in 5 seconds",
  non_2xx: "the receiver answered with a status other than 2xx",
  redirect: "the receiver answered with a redirect, and redirects are not followed",
  invalid_json: "the receiver's answer is not a JSON object of at most 64 KiB",
  challenge_mismatch: "the receiver's answer holds another challenge, or none",
  unsafe_url: "the host does not lead to public addresses only",
  network_error: "the receiver could not be reached: its name was not found, the connection was refused or broke off, or its certificate is not trusted"
}

/** 429: as many handshakes as may run at a time, of the application, or of the tenant or in all to the host, are running. */
export class HandshakesBusy extends Data.TaggedError("HandshakesBusy")<{ readonly limit: number }> {
  override readonly message =
    "Other endpoint verifications are still running. Create endpoints one after another, or try again in some seconds."
}

/** Verifies a receiver for the caller's application: it succeeds once the challenge came back. */
export type ShakeHands = (
  target: WebhookTarget,
  caller: Pick<Principal, "realm" | "applicationId">
) => Effect.Effect<void, InvalidWebhookUrl | WebhookVerificationFailed | HandshakesBusy>

/** One for a process: what it counts as under way is under way here. */
export const make: Effect.Effect<ShakeHands, never, Crypto | WebhookTransport> = Effect.gen(function* () {
  const crypto = yield* Crypto
  const transport = yield* WebhookTransport
  const ofApplications = new Gate<ApplicationId>(Limits.handshakesPerApplicationMax)
  const toHosts = new HostGate()

  const verify = Effect.fnUntraced(function* (target: WebhookTarget) {
    const challenge = hex(yield* crypto.randomBytes(Webhook.challengeBytes))
    const body = Webhook.verification(yield* crypto.uuid, challenge, yield* Clock.currentTimeMillis)
    const request = { target, headers: Webhook.commonHeaders, body: new TextEncoder().encode(body) }
    const answer = yield* postAnew(transport, request).pipe(
      Effect.mapError((error) =>
        error.reason === "unsafe_url"
          ? new InvalidWebhookUrl({ fault: null })
          : new WebhookVerificationFailed({ reason: error.reason })
      ),
      Effect.timeoutOrElse({
        duration: Limits.webhookDeadline,
        orElse: () => Effect.fail(new WebhookVerificationFailed({ reason: "timeout" }))
      })
    )
    const fault = Webhook.handshakeFault(answer, challenge)
    if (fault !== null) return yield* new WebhookVerificationFailed({ reason: fault })
  }, (self) =>
    self.pipe(
      Effect.tap(() => Metrics.count(Metrics.handshakes.verified)),
      Effect.tapError(({ reason }) => Metrics.count(Metrics.handshakes[reason])),
      Tracing.span("Webhooks.verify", "client")
    )
  )

  return (target, { realm, applicationId }) =>
    verify(target).pipe(
      toHosts.pass(target.host, realm.tenantId),
      ofApplications.pass(applicationId),
      Effect.tapErrorTag("HandshakesBusy", () => Metrics.count(Metrics.rateLimited.handshake))
    )
})

/** Lets so many through at a time for each name, and refuses the others at once. */
class Gate<Name> {
  readonly #inside = new Map<Name, number>()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  pass(name: Name): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | HandshakesBusy, R> {
    return <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | HandshakesBusy, R> =>
      Effect.uninterruptibleMask((restore): Effect.Effect<A, E | HandshakesBusy, R> => {
        const inside = this.#inside.get(name) ?? 0
        if (inside >= this.#limit) return Effect.fail(new HandshakesBusy({ limit: this.#limit }))
        this.#inside.set(name, inside + 1)
        return Effect.ensuring(restore(self), Effect.sync(() => this.#leave(name)))
      })
  }

  #leave(name: Name): void {
    const inside = (this.#inside.get(name) ?? 1) - 1
    if (inside === 0) this.#inside.delete(name)
    else this.#inside.set(name, inside)
  }
}

/** Milliseconds: as long as a handshake that began before may take, and a moment for its end. */
const hostPatience = Limits.webhookDeadline + 1_000

/**
 * Lets as many through to each host as may be under way, and each tenant one at a time. Whoever finds another tenant there
 * waits for that one's end, or it could keep all others from a host that they share; with a place for each of its
 * applications it still could.
 */
class HostGate {
  readonly #hosts = new Map<string, { readonly places: Semaphore.Semaphore; readonly tenants: Set<TenantId> }>()

  pass(host: string, tenant: TenantId): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | HandshakesBusy, R> {
    return <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | HandshakesBusy, R> =>
      Effect.uninterruptibleMask((restore): Effect.Effect<A, E | HandshakesBusy, R> => {
        const { places, tenants } = this.#hosts.get(host) ?? {
          places: Semaphore.makeUnsafe(Limits.handshakesPerHostMax),
          tenants: new Set<TenantId>()
        }
        const busy = Effect.suspend(() => Effect.fail(new HandshakesBusy({ limit: Limits.handshakesPerHostMax })))
        if (tenants.has(tenant)) return busy
        this.#hosts.set(host, { places, tenants })
        tenants.add(tenant)
        let isInside = false
        const inside = places.withPermit(
          Effect.suspend(() => {
            isInside = true
            return self
          })
        )
        const late = Effect.flatMap(Effect.sleep(hostPatience), () => (isInside ? Effect.never : busy))
        return restore(Effect.raceFirst(inside, late)).pipe(
          Effect.ensuring(
            Effect.sync(() => {
              tenants.delete(tenant)
              if (tenants.size === 0) this.#hosts.delete(host)
            })
          )
        )
      })
  }
}
