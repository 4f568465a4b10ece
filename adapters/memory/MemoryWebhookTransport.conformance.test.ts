import { Context, Effect, Layer } from "effect"
import { Receivers, suite, type Arrived } from "../../conformance/WebhookTransport.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryWebhookTransport from "./MemoryWebhookTransport.ts"
import { WebhookScript, type Ending, type Posted } from "./MemoryWebhookTransport.ts"

const [address, forbidden] = ["127.0.0.1", "127.0.0.2"]

const arrivedOf = ({ method, url, headers, body }: Posted): Arrived => ({
  method,
  path: new URL(url).pathname + new URL(url).search,
  headers,
  body
})

const receivers = Layer.effectContext(
  Effect.gen(function* () {
    const context = yield* Layer.build(MemoryWebhookTransport.layer)
    const { lead, posts, receive, waiting } = Context.get(context, WebhookScript)
    let count = 0
    const service = Receivers.of({
      policy: { allowHttp: true, allowedBlocks: [`${address}/32`] },
      address,
      forbidden,
      lead,
      open: Effect.fnUntraced(function* (behave) {
        const host = `h${(count += 1)}.hooks.example`
        const url = `http://${host}:8080/hooks?a=1&b=%20`
        const mine = (all: ReadonlyArray<Posted>) => all.filter((posted) => posted.url === url)
        const ending = (posted: Posted): Ending => {
          const behaviour = behave(arrivedOf(posted))
          if (behaviour._tag === "Leaves") return { _tag: "Fails", reason: "network_error" }
          if (behaviour._tag === "Hangs") return behaviour
          const { status, headers = {}, body = new Uint8Array() } = behaviour
          const retryAfter = headers["retry-after"]
          return { _tag: "Answers", status, body, ...(retryAfter === undefined ? {} : { retryAfter }) }
        }
        yield* receive(url, ending)
        yield* lead(host, [address])
        return {
          url,
          host,
          arrived: Effect.map(posts, (all) => mine(all).map(arrivedOf)),
          waiting: Effect.map(waiting, (all) => mine(all).length),
          reached: Effect.map(posts, (all) => mine(all).map((posted) => posted.address))
        }
      })
    })
    return Context.add(context, Receivers, service)
  })
)

conforms("MemoryWebhookTransport", suite, receivers)
