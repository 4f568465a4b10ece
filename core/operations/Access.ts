/**
 * Who is calling, and may they (Spec 5 and 8). The steps are those of the
 * specification, in its order; `admit` is the list of them.
 *
 * A secret that Argon2id has accepted is known again for some minutes by a
 * keyed hash, so a busy key costs one hash. Status, expiry and scopes are read
 * on every request all the same, so revocation needs no restart.
 */
import { Clock, Context, Data, Deferred, Effect, Layer, Option } from "effect"
import * as ApiKeys from "../model/ApiKey.ts"
import type { Scope } from "../model/ApiKey.ts"
import { entryOf, type Actor, type AuditEntry } from "../model/Audit.ts"
import { bucketOf } from "../model/ClientAddress.ts"
import type { ApiKeyId, ApplicationId, Millis, Realm, RequestId } from "../model/Ids.ts"
import type { Plan } from "../model/Limits.ts"
import { LocalLimiter } from "../model/LocalLimiter.ts"
import type { Guard, Standing, Taken } from "../model/RateLimit.ts"
import { Crypto, CryptoBusy } from "../ports/Crypto.ts"
import { RateLimiter, type RateLimiterUnavailable } from "../ports/RateLimiter.ts"
import { Store, type Change, type Credential, type StoreUnavailable } from "../ports/Store.ts"
import * as Metrics from "../Metrics.ts"
import { remember } from "../Remember.ts"
import * as SeldomLog from "../SeldomLog.ts"
import { Settings } from "../Settings.ts"
import * as Tracing from "../Tracing.ts"
import { Turns } from "../Turns.ts"
import { unchanged } from "./Commit.ts"
import { RequestLog } from "./RequestLog.ts"

/** The operations of the API and the scope each needs (Spec 4). */
export const requiredScopes = {
  listMailboxes: "mailboxes:read",
  listDomains: "mailboxes:read",
  listMessages: "messages:read",
  sendMessage: "messages:send",
  getMessage: "messages:read",
  updateMessage: "messages:write",
  uploadAttachment: "attachments:write",
  downloadAttachment: "attachments:read",
  listEvents: "messages:read",
  listWebhookEndpoints: "webhooks:read",
  createWebhookEndpoint: "webhooks:write",
  listWebhookDeliveries: "webhooks:read",
  replayWebhookDelivery: "webhooks:write"
} as const satisfies Record<string, Scope>
export type Operation = keyof typeof requiredScopes

/** The caller, derived from the credential and from nothing else. */
export interface Principal {
  readonly realm: Realm
  readonly applicationId: ApplicationId
  readonly apiKeyId: ApiKeyId
  readonly scopes: ReadonlyArray<Scope>
  readonly plan: Plan
  readonly requestId: RequestId
  readonly clientAddress: string
}

/** Who a caller is in the audit trail: its key. */
export const actorOf = (principal: Principal): Actor => ({ type: "api_key", id: principal.apiKeyId })

/** The audit entry of a write that a caller asked for. */
export const auditEntry = (principal: Principal, id: string, at: Millis, action: string, subjectId: string): AuditEntry => ({
  ...entryOf({ ...principal.realm, id, at, actor: actorOf(principal), action }, subjectId),
  requestId: principal.requestId,
  clientAddress: principal.clientAddress
})

/** 401, one answer for every cause (Spec 5, point 5). `reason` is for the log alone. */
export class Unauthorized extends Data.TaggedError("Unauthorized")<{
  readonly reason: "missing" | "malformed" | "unknown" | "mismatch" | NonNullable<ReturnType<typeof ApiKeys.refusal>>
}> {
  override readonly message =
    "The API key is missing, malformed, expired or revoked. Send a valid one as `Authorization: Bearer <API_KEY>`."
}

/** 403: the key lacks a scope of the operation (Spec 5, point 5). */
export class InsufficientScope extends Data.TaggedError("InsufficientScope")<{
  readonly required: ReadonlyArray<Scope>
  readonly missing: ReadonlyArray<Scope>
}> {
  override get message(): string {
    return `The API key lacks ${this.missing.join(", ")}. Scopes are fixed at issuance: issue another key that has what this call needs.`
  }
}

/** 429: one of the three guards of Spec 8 refuses. */
export class RateLimited extends Data.TaggedError("RateLimited")<{
  readonly scope: Guard["scope"]
  readonly limit: number
  readonly windowSeconds: number
  readonly retryAfterSeconds: number
}> {
  override get message(): string {
    const whose = { ip: "your network address", key: "this API key", tenant_day: "your organization" }[this.scope]
    const window = this.scope === "tenant_day" ? "this UTC day" : `${this.windowSeconds} seconds`
    return `Too many requests from ${whose}: ${this.limit} in ${window}. Wait ${this.retryAfterSeconds} seconds, plus a random moment.`
  }
}

/** Milliseconds that a body may take to come before its caller is looked at again. */
export const promptBody = Context.Reference<Millis>("mailroom/core/operations/Access/promptBody", { defaultValue: () => 1_000 })

/** How long a verified secret is known again without a hash. */
const proofLifetime: Millis = 5 * 60_000
const proofsMax = 10_000

/** Hashes of one public id that wait for its turn: whoever has its secret sends one, whoever guesses any number. */
const hashesInLineMax = 16

export class Access extends Context.Service<
  Access,
  {
    /** The IP guard: the first check of every request, before there is a caller. */
    readonly guardAddress: (clientAddress: string) => Effect.Effect<ReadonlyArray<Standing>, RateLimited>
    /**
     * Everything between the route and the input: credential, key limit, tenant
     * limit, scope. `caller` is told who calls as soon as the credential holds,
     * `standings` what is left of each limit once both were taken: a step that
     * refuses later takes neither back.
     */
    readonly admit: (
      request: {
        readonly authorization: string | undefined
        readonly operation: Operation
        readonly requestId: RequestId
        readonly clientAddress: string
      },
      standings: (standings: ReadonlyArray<Standing>) => void,
      caller: (principal: Principal) => void
    ) => Effect.Effect<Principal, Unauthorized | InsufficientScope | RateLimited | CryptoBusy | StoreUnavailable>
    /**
     * Once a body has come whose caller was admitted at `since`, in nanoseconds of a clock that never jumps: whether the
     * credential still holds, if that took longer than `promptBody`. Who revokes a key waits for no request that is kept open
     * with it.
     */
    readonly readmit: (
      authorization: string | undefined,
      since: bigint
    ) => Effect.Effect<void, Unauthorized | CryptoBusy | StoreUnavailable>
  }
>()("mailroom/core/operations/Access") {
  static readonly layer = Layer.effect(
    Access,
    Effect.gen(function* () {
      const patience = yield* promptBody
      const store = yield* Store
      const crypto = yield* Crypto
      const limiter = yield* RateLimiter
      const requestLog = yield* RequestLog
      const settings = yield* Settings
      const local = new LocalLimiter()
      const proofs = new Map<string, { readonly proof: string; readonly until: Millis }>()
      const verifying = new Map<string, Deferred.Deferred<boolean, CryptoBusy>>()
      /** One hash at a time for each public id: wrong secrets for one are not to fill everybody's line. */
      const turns = new Turns()

      const seldom = SeldomLog.make()

      /** An unreachable limiter must not open the gate: this process then counts by itself. */
      const takeLocally = (guards: ReadonlyArray<Guard>, error: RateLimiterUnavailable) =>
        Effect.andThen(
          seldom(Effect.logWarning("each process limits by itself", error)),
          Clock.clockWith((clock) => verdict(local.take(guards, clock.monotonicTimeNanosUnsafe(), clock.currentTimeMillisUnsafe())))
        )

      const take = (guards: ReadonlyArray<Guard>) =>
        Effect.matchEffect(limiter.take(guards), {
          onSuccess: verdict,
          onFailure: (error) => takeLocally(guards, error)
        })

      const hashInTurn = ({ publicId, secret }: ApiKeys.Token, hash: string) =>
        Effect.suspend(() =>
          turns.asked(publicId) > hashesInLineMax ? Effect.fail(new CryptoBusy()) : turns.take(publicId, crypto.verifySecret(secret, hash))
        )

      /** One hash for all who present this secret at the same time. */
      const verifyOnce = Effect.fnUntraced(function* (token: ApiKeys.Token, hash: string, proof: string) {
        const running = verifying.get(proof)
        if (running !== undefined) return yield* Deferred.await(running)
        const verdict = Deferred.makeUnsafe<boolean, CryptoBusy>()
        const hashing = hashInTurn(token, hash).pipe(
          Effect.exit,
          Effect.flatMap((exit) => {
            verifying.delete(proof)
            return Deferred.done(verdict, exit)
          })
        )
        // Detached: a caller who hangs up must not take the verdict from those who wait for it too.
        yield* Effect.uninterruptible(
          Effect.suspend(() => {
            verifying.set(proof, verdict)
            return Effect.forkDetach(hashing)
          })
        )
        return yield* Deferred.await(verdict)
      })

      // Plain generators, run as part of `admit`: this is asked with every request, and a fiber's frame for each step shows.

      const verifySecret = function* (clock: Clock.Clock, token: ApiKeys.Token, { apiKey }: Credential) {
        const now = clock.currentTimeMillisUnsafe()
        const proof = yield* crypto.proof(token.secret, apiKey.secretHash)
        const known = proofs.get(apiKey.publicId)
        if (known !== undefined && known.proof === proof && known.until > now && known.until - now <= proofLifetime) return "proof"
        if (!(yield* verifyOnce(token, apiKey.secretHash, proof))) return yield* unauthorized("mismatch")
        remember(proofs, apiKey.publicId, { proof, until: now + proofLifetime }, proofsMax)
        return "hash"
      }

      const authenticate = function* (clock: Clock.Clock, authorization: string | undefined) {
        if (authorization === undefined) return yield* unauthorized("missing")
        const token = parseToken(authorization)
        if (token === null) return yield* unauthorized("malformed")
        const [credential] = yield* store.credentials.byPublicId([token.publicId])
        if (credential === undefined) return yield* unauthorized("unknown")
        const by = yield* verifySecret(clock, token, credential)
        const { apiKey, application, tenant } = credential
        const reason = ApiKeys.refusal(apiKey, application, tenant, token, clock.currentTimeMillisUnsafe())
        if (reason !== null) return yield* unauthorized(reason)
        yield* Metrics.count(Metrics.keyVerifications[by])
        return credential
      }

      return Access.of({
        guardAddress: (clientAddress) =>
          take([{ scope: "ip", bucket: bucketOf(clientAddress), limit: settings.ipRequestsPerMinute, window: "minute" }]),

        admit: Tracing.fn("Access.admit")(function* (request, standings, caller) {
          const clock = yield* Clock.Clock
          const { apiKey, plan } = yield* authenticate(clock, request.authorization)
          const principal: Principal = {
            realm: { tenantId: apiKey.tenantId, environment: apiKey.environment },
            applicationId: apiKey.applicationId,
            apiKeyId: apiKey.id,
            scopes: apiKey.scopes,
            plan,
            requestId: request.requestId,
            clientAddress: request.clientAddress
          }
          caller(principal)
          requestLog.touch(apiKey.id, clock.currentTimeMillisUnsafe())
          standings(
            yield* take([
              { scope: "key", bucket: apiKey.id, limit: plan.keyRequestsPerMinute, window: "minute" },
              { scope: "tenant_day", bucket: apiKey.tenantId, limit: plan.tenantRequestsPerDay, window: "day" }
            ])
          )
          const required = requiredScopes[request.operation]
          if (!principal.scopes.includes(required)) return yield* new InsufficientScope({ required: [required], missing: [required] })
          return principal
        }),

        readmit: Effect.fnUntraced(function* (authorization, since) {
          const clock = yield* Clock.Clock
          if (clock.monotonicTimeNanosUnsafe() - since >= BigInt(patience) * 1_000_000n) yield* authenticate(clock, authorization)
        })
      })
    })
  )
}

/**
 * That a caller would be let in now as well: for a commit long after its request began, of what serves it when its key is gone.
 */
export const stillAdmitted = Effect.fnUntraced(function* (
  store: typeof Store.Service,
  { realm: { tenantId, environment }, applicationId, apiKeyId }: Principal
): Effect.fn.Return<ReadonlyArray<Change>, Unauthorized | StoreUnavailable> {
  const { credentials } = store
  const [apiKey, application, tenant] = yield* Effect.all(
    [credentials.apiKey(tenantId, apiKeyId), credentials.application(tenantId, applicationId), credentials.tenant(tenantId)],
    { concurrency: "unbounded" }
  )
  if (apiKey === null || application === null || tenant === null) return yield* unauthorized("unknown")
  const reason = ApiKeys.refusal(apiKey, application, tenant, { environment }, yield* Clock.currentTimeMillis)
  if (reason !== null) return yield* unauthorized(reason)
  return [unchanged("apiKey", apiKey), unchanged("application", application), unchanged("tenant", tenant)]
})

const parseToken = (authorization: string): ApiKeys.Token | null => {
  const bearer = /^Bearer +([^\s]+) *$/i.exec(authorization)
  return bearer === null ? null : Option.getOrNull(ApiKeys.parse(bearer[1]!)) // the group of a match is there
}

const unauthorized = (reason: Unauthorized["reason"]) =>
  Effect.andThen(Metrics.count(Metrics.keyVerifications.refused), Effect.fail(new Unauthorized({ reason })))

/** What the guards let pass, or the one that refuses. */
const verdict = ({ refusedBy, standings }: Taken): Effect.Effect<ReadonlyArray<Standing>, RateLimited> => {
  if (refusedBy === null) return Effect.succeed(standings)
  const { guard, resetMs } = refusedBy
  return Effect.andThen(
    Metrics.count(Metrics.rateLimited[guard.scope]),
    Effect.fail(
      new RateLimited({
        scope: guard.scope,
        limit: guard.limit,
        windowSeconds: guard.window === "minute" ? 60 : 86_400,
        retryAfterSeconds: Math.max(1, Math.ceil(resetMs / 1000))
      })
    )
  )
}
