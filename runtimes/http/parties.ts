/** What tests have parties do, beyond what the harness starts them with. */
import { Effect, Redacted, Result } from "effect"
import * as Address from "../../core/model/Address.ts"
import { scopes } from "../../core/model/ApiKey.ts"
import type { Environment } from "../../core/model/Ids.ts"
import * as Harness from "./harness.ts"
import type { Behaviour, Receiver } from "./receivers.ts"

/** Sends as a party, to one recipient unless the change says otherwise. */
export const send = (server: Harness.Harness, party: Harness.Party, change: object = {}) =>
  server.call("POST", "/v1/messages", {
    key: party.key,
    headers: { "idempotency-key": globalThis.crypto.randomUUID() },
    body: { fromMailboxId: party.mailbox.id, to: ["charles@mail.example"], text: "x", ...change }
  })

/** Uploads three bytes as a party, unless the change says otherwise. */
export const upload = (server: Harness.Harness, party: Harness.Party, change: object = {}) =>
  server.call("POST", "/v1/attachments", {
    key: party.key,
    body: { mailboxId: party.mailbox.id, filename: "note.txt", mediaType: "text/plain", contentBase64: "QUJD", ...change }
  })

/** Another application of a party's tenant, with a key of all scopes. */
export const application = (server: Harness.Harness, party: Harness.Party, environment: Environment) =>
  Effect.orDie(
    Effect.gen(function* () {
      const { tenantId } = party
      const made = yield* server.management.createApplication(Harness.actor, { tenantId, environment, name: "Another" })
      const { text } = yield* server.management.issueKey(Harness.actor, { tenantId, applicationId: made.id, name: "key", scopes })
      return { ...party, application: made, key: Redacted.value(text) } satisfies Harness.Party
    })
  )

/** Another mailbox at a party's domain. */
export const mailbox = (server: Harness.Harness, party: Harness.Party, local: string) =>
  Effect.orDie(
    server.management.createMailbox(Harness.actor, {
      tenantId: party.tenantId,
      address: Result.getOrThrow(Address.parse(`${local}@${Address.domainOf(party.mailbox.address)}`)),
      displayName: local
    })
  )

/** The ids of a list's items. */
export const idsOf = ({ json }: Harness.Reply): ReadonlyArray<string | undefined> => json.items.map(({ id }: { id: string }) => id)

/** All events that a party sees. */
export const eventsOf = (server: Harness.Harness, party: Harness.Party) =>
  Effect.map(server.call("GET", "/v1/events?limit=100", { key: party.key }), ({ json }) => json.items)

/** Creates a webhook endpoint for a party at a receiver, for all types of events unless the change says otherwise. */
export const subscribe = (server: Harness.Harness, party: Harness.Party, receiver: Receiver, change: object = {}) =>
  server.call("POST", "/v1/webhook-endpoints", { key: party.key, body: { url: receiver.url, eventTypes: ["*"], ...change } })

/** A party that gets the events of its sends at an endpoint, and the receiver behind it. */
export const subscriber = (server: Harness.Harness, of: Harness.Party, behave?: Behaviour) =>
  Effect.gen(function* () {
    const receiver = server.receivers.open(behave)
    const { json } = yield* subscribe(server, of, receiver, { eventTypes: ["message.queued"] })
    return { ...of, receiver, endpoint: json.endpoint, secret: json.secret }
  })

/** The latest deliveries that a party sees. */
export const deliveriesOf = (server: Harness.Harness, party: Harness.Party) =>
  Effect.map(server.call("GET", "/v1/webhook-deliveries", { key: party.key }), ({ json }) => json.items)

export const replay = (server: Harness.Harness, party: Harness.Party, id: string) =>
  server.call("POST", `/v1/webhook-deliveries/${id}/replay`, { key: party.key })
