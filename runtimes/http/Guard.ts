/**
 * What stands between a route and its handler, in the order of refusal: the
 * announced length, the credential, the key's and the tenant's limit, the
 * scope, the media type, an Idempotency-Key that is given twice, the body's
 * bytes, the credential again if these took their time, the schemas; and then
 * the handler.
 */
import { Clock, Effect, Result, type Scope } from "effect"
import type { HttpServerRequest } from "effect/http"
import type { IncomingMessage } from "node:http"
import { attachmentSizeBytesMax } from "../../core/model/Limits.ts"
import { Access, type Principal } from "../../core/operations/Access.ts"
import { AttachmentTooLarge } from "../../core/operations/Attachments.ts"
import * as Body from "./Body.ts"
import { BodyRoom, forTenants } from "./BodyRoom.ts"
import type { CallState } from "./Call.ts"
import { Drain } from "./Drain.ts"
import { Handlers } from "./Handlers.ts"
import type { Served } from "./Operations.ts"
import { InvalidIdempotencyKey, type Refusal } from "./Refusals.ts"

/** What a handler succeeds with, for its operation to make an answer of. */
export type Serve = (
  operation: Served,
  call: CallState,
  request: HttpServerRequest.HttpServerRequest,
  params: Readonly<Record<string, string>>
) => Effect.Effect<unknown, Refusal, Scope.Scope>

export const make: Effect.Effect<Serve, never, Access | Drain | Handlers> = Effect.gen(function* () {
  const access = yield* Access
  const drain = yield* Drain
  const handlers = yield* Handlers
  const room = new BodyRoom(forTenants)
  const waitingOf = ({ realm }: Principal): Body.Waiting => ({ drain, room, caller: realm.tenantId })

  return Effect.fnUntraced(function* (operation, call, request, params) {
    const { name, body, bodyBytesMax } = operation
    const { headers } = request
    call.operation = name
    call.route = operation.path
    const early = Body.faultOfLength(headers, bodyBytesMax)
    // What makes an upload that long can only be its attachment.
    if (early !== null) return yield* body === "handler" ? new AttachmentTooLarge({ limitBytes: attachmentSizeBytesMax }) : early
    const principal = yield* access.admit(
      { authorization: headers["authorization"], operation: name, requestId: call.requestId, clientAddress: call.clientAddress },
      (standings) => call.guarded(standings),
      (principal) => void (call.principal = principal)
    )
    if (body !== null) {
      const fault = Body.faultOfMediaType(request)
      if (fault !== null) return yield* fault
    }
    if (operation.takesIdempotencyKey && isRepeated(request, "idempotency-key")) return yield* new InvalidIdempotencyKey()
    let text: string | null = null
    // A GET's is nobody's, and not looked at.
    if (body === "guard" || (body === null && operation.method !== "GET")) {
      const since = Body.hasArrived(request) ? null : yield* Clock.monotonicTimeNanos
      if (body === "guard") text = yield* Body.read(request, bodyBytesMax, waitingOf(principal))
      else yield* Body.readNone(request, bodyBytesMax, waitingOf(principal))
      if (since !== null) yield* access.readmit(headers["authorization"], since)
    }
    const input = operation.decode({ request, params, text })
    if (Result.isFailure(input)) return yield* input.failure
    // An operation decodes what its own handler takes.
    const handle = handlers[name] as (caller: typeof principal, input: unknown, call: CallState) => Effect.Effect<unknown, Refusal, Scope.Scope>
    const handled = handle(principal, input.success, call)
    return yield* body === "handler" ? drain.unlessExpired(handled) : handled
  })
})

/**
 * The values of a repeated header come joined by commas; which of them would be the key? Node still tells them apart. Of a
 * web request nobody can, and what may be two keys is taken for two.
 */
const isRepeated = ({ headers, source }: HttpServerRequest.HttpServerRequest, name: string): boolean =>
  headers[name]?.includes(", ") === true &&
  (!("headersDistinct" in source) || ((source as IncomingMessage).headersDistinct[name]?.length ?? 0) > 1) // Node's requests have it
