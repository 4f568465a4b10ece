/**
 * `POST /providers/{name}/notifications`: where a mail provider posts what
 * became of our submissions. It is no part of the tenants' API: there is no
 * key, the provider's adapter says whether a request is authentic, and who is
 * refused is not told why.
 *
 * Providers post in bursts, and repeat what is turned away, so the IP guard
 * does not stand before this path: it counts what was refused. The answer is
 * 200 once all is committed, and 503 where it may come again.
 */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { bucketOf } from "../../core/model/ClientAddress.ts"
import { Access, type RateLimited } from "../../core/operations/Access.ts"
import { Notifications } from "../../core/operations/Notifications.ts"
import { intakeBytesMax, type IntakeUnavailable } from "../../core/ports/NotificationIntake.ts"
import type { StoreUnavailable } from "../../core/ports/Store.ts"
import * as Body from "./Body.ts"
import { BodyRoom, forStrangers } from "./BodyRoom.ts"
import { Call } from "./Call.ts"
import { Drain } from "./Drain.ts"
import { type InvalidRequest, logFault, type PayloadTooLarge, type RequestTimeout, RouteUnknown, type ShuttingDown } from "./Refusals.ts"

export const path = "/providers/:name/notifications"

/** Whether a request is one of these, whoever's. */
export const isNotification = (method: string, template: string | undefined): boolean => method === "POST" && template === path

type Refused = IntakeUnavailable | StoreUnavailable | RouteUnknown | PayloadTooLarge | InvalidRequest | RequestTimeout | ShuttingDown | RateLimited

export const providersLayer = Layer.unwrap(
  Effect.gen(function* () {
    const access = yield* Access
    const notifications = yield* Notifications
    const drain = yield* Drain
    const room = new BodyRoom(forStrangers)

    const received = Effect.gen(function* () {
      const call = yield* Call
      const request = yield* HttpServerRequest.HttpServerRequest
      // As it was sent: nothing is decoded.
      const [, , name = ""] = call.route.split("/")
      // Before a byte of a body that nobody is there for.
      if (!notifications.knows(name)) return yield* countedAs(new RouteUnknown())
      const early = Body.faultOfLength(request.headers, intakeBytesMax)
      if (early !== null) return yield* countedAs(early)
      const waiting = { drain, room, caller: bucketOf(call.clientAddress) }
      yield* Effect.yieldNow // what has come with the headers is read by then, and waits for no room
      const body = yield* Effect.catchTags(Body.readBytes(request, intakeBytesMax, waiting), {
        PayloadTooLarge: countedAs,
        InvalidRequest: countedAs,
        RequestTimeout: (late) => {
          call.headers["connection"] = "close" // nobody waits for the rest, whatever it is refused as
          return countedAs(late)
        }
      })
      return yield* notifications.receive(name, { headers: request.headers, body }).pipe(
        Effect.as(HttpServerResponse.empty({ status: 200 })),
        Effect.catchTags({
          ProviderUnknown: () => countedAs(new RouteUnknown()),
          IntakeRefused: ({ reason }) => {
            call.reason = reason
            return Effect.as(counted, HttpServerResponse.empty({ status: 403 }))
          }
        })
      )
    })

    /** Who is refused over and over is told to stop. */
    const counted = Effect.flatMap(Call, (call) => access.guardAddress(call.clientAddress))

    const countedAs = <R extends Refused>(refusal: R) => Effect.andThen(counted, Effect.fail(refusal))

    const refused = (refusal: Refused) =>
      Effect.gen(function* () {
        const call = yield* Call
        const { status, body } = call.refuse(refusal)
        yield* logFault(refusal, status)
        return HttpServerResponse.jsonUnsafe(body, { status })
      })

    return HttpRouter.add("POST", path, Effect.catch(received, refused))
  })
)
