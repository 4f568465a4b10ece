/** Mailboxes and domains (Spec 2 and 4). */
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, holds } from "./Law.ts"
import * as Shapes from "./Shapes.ts"

const domainOf = (address: string): string => address.slice(address.lastIndexOf("@") + 1)

export const suite: HttpSuite = {
  name: "mailboxes",
  checks: [
    check("Spec 2, Mailbox", "mailboxes have an id, an address and a display name, and nothing else", function* () {
      const reply = yield* call({ method: "GET", path: "/v1/mailboxes" })
      const { items } = yield* answered(reply, 200, Shapes.Mailboxes)
      yield* equal(reply, "each is listed once", new Set(items.map(({ id }) => id)).size, items.length)
      for (const { address } of items) {
        yield* holds(reply, `${address} is an address`, /^[^@\s]+@[^@\s]+$/.test(address))
      }
    }),

    check(
      "Spec 2, Domain",
      "domains have their name, verified, health and mailboxCount, and nothing else",
      function* () {
        const reply = yield* call({ method: "GET", path: "/v1/domains" })
        const { items } = yield* answered(reply, 200, Shapes.Domains)
        for (const { domain, verified, health } of items) {
          yield* equal(
            reply,
            `${domain} is verified if it is healthy or degraded`,
            verified,
            health === "healthy" || health === "degraded"
          )
        }
      }
    ),

    check("Spec 2, Domain", "a domain counts its mailboxes, and a mailbox is at one of the domains", function* () {
      const { items: mailboxes } = yield* answered(
        yield* call({ method: "GET", path: "/v1/mailboxes" }),
        200,
        Shapes.Mailboxes
      )
      const reply = yield* call({ method: "GET", path: "/v1/domains" })
      const { items: domains } = yield* answered(reply, 200, Shapes.Domains)
      for (const { domain, mailboxCount } of domains) {
        yield* equal(
          reply,
          `mailboxCount of ${domain}`,
          mailboxCount,
          mailboxes.filter(({ address }) => domainOf(address) === domain).length
        )
      }
      const names = domains.map(({ domain }) => domain)
      for (const { address } of mailboxes) {
        yield* holds(reply, `the domain of ${address} is listed`, names.includes(domainOf(address)))
      }
    })
  ]
}
