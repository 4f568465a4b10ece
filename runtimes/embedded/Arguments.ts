/**
 * What the calls of a service are given. Programs in JavaScript have no types
 * to help them: a misspelt name, or a value of another kind, would be written
 * as it is, or left out in silence. How long a text may be and how large a
 * number, the core says.
 */
import { Predicate, Redacted, Result } from "effect"
import * as Address from "../../core/model/Address.ts"
import type { Management } from "../../core/operations/Management.ts"
import type { WebhookManagement } from "../../core/operations/WebhookManagement.ts"

/** The faults of a value that is called so. */
type Shape = (name: string, value: unknown) => ReadonlyArray<string>

const shape =
  (wants: string, isMet: (value: unknown) => boolean): Shape =>
  (name, value) =>
    isMet(value) ? [] : [`${name} ${value === undefined ? "is not given" : "is something else"}; it wants ${wants}`] // which may be a secret

const text = shape("a text", Predicate.isString)
const number = shape("a number", Predicate.isNumber)
const truth = shape("true or false", Predicate.isBoolean)
const texts = shape("a list of texts", (value) => Array.isArray(value) && value.every(Predicate.isString))
const secret = shape("a text that is `Redacted`", Redacted.isRedacted)
/** What is one, but is written in another way than it is kept, would be looked for in vain. */
const parsed = (wants: string, parse: (text: string) => Result.Result<string, string>) =>
  shape(wants, (value) => Predicate.isString(value) && Result.getOrNull(parse(value)) === value)
const address = parsed("an address, as `parseAddress` makes it", Address.parse)
const domain = parsed("a domain name, as `parseDomain` makes it", Address.parseDomain)
const oneOf = (...words: ReadonlyArray<string>): Shape => shape(words.map((word) => `\`${word}\``).join(" or "), (value) => words.includes(value as string)) // or it is none of them

const optional =
  (of: Shape): Shape =>
  (name, value) =>
    value === undefined ? [] : of(name, value)
const orNull =
  (of: Shape): Shape =>
  (name, value) =>
    value === null ? [] : of(name, value)
const listOf =
  (of: Shape): Shape =>
  (name, value) =>
    Array.isArray(value) ? value.flatMap((item, index) => of(`${name}[${index}]`, item)) : [`${name} wants a list`]

export type Members = Readonly<Record<string, Shape>>

/** A record with these members, and maybe with others: it may come from elsewhere. */
const record =
  (members: Members): Shape =>
  (name, value) =>
    Predicate.isObject(value)
      ? Object.entries(members).flatMap(([member, of]) => of(`${name}.${member}`, (value as Readonly<Record<string, unknown>>)[member])) // it is one
      : [`${name} ${value === undefined ? "is not given" : "is something else"}; it wants { ${Object.keys(members).join(", ")} }`]

/** What is written for this call: a member that it does not know is a mistake. */
const input =
  (members: Members): Shape =>
  (name, value) => [
    ...record(members)(name, value),
    ...(Predicate.isObject(value) ? Object.entries(value) : []).flatMap(([member, given]) =>
      given === undefined || Object.hasOwn(members, member) ? [] : [`${name}.${member} is not known; there are ${Object.keys(members).join(", ")}`]
    )
  ]

const environment = oneOf("sandbox", "production")
const status = oneOf("active", "suspended")
const actor = record({ type: oneOf("api_key", "operator", "system"), id: text })
const realm = record({ tenantId: text, environment })
const page = { after: optional(text), limit: optional(number) }
const guarded = { version: optional(number) }
const numbers = { keyRequestsPerMinute: optional(number), tenantRequestsPerDay: optional(number), recipientsPerDay: optional(number) }
const check = record({
  record: oneOf("ownership", "dkim", "spf", "dmarc", "return_path", "mx"),
  state: oneOf("ok", "missing", "mismatch", "unknown"),
  expected: text,
  observed: orNull(text),
  since: number
})

/** Each call's arguments, by the names that its declaration has for them. */
export type Calls<Service> = { readonly [K in keyof Service]: Members }

const ofTenant = { tenantId: text, id: text }
const byActor = { actor, tenantId: text, id: text }

export const management: Calls<typeof Management.Service> = {
  listPlans: {},
  getPlan: { id: text },
  putPlan: { plan: input({ id: text, keyRequestsPerMinute: number, tenantRequestsPerDay: number, recipientsPerDay: number }) },
  createPlan: { actor, plan: input({ id: text, ...numbers }) },
  updatePlan: { actor, id: text, numbers: input(numbers) },
  listTenants: { query: input(page) },
  getTenant: { id: text },
  createTenant: { actor, input: input({ id: optional(text), name: text, planId: text }) },
  updateTenant: { actor, id: text, input: input({ ...guarded, name: optional(text), planId: optional(text) }) },
  setTenantStatus: { actor, id: text, status },
  listApplications: { tenantId: text, query: input(page) },
  getApplication: ofTenant,
  createApplication: { actor, input: input({ id: optional(text), tenantId: text, environment, name: text }) },
  updateApplication: { ...byActor, input: input({ ...guarded, name: text }) },
  setApplicationStatus: { ...byActor, status },
  listAudit: { tenantId: text, query: input(page) },
  listRequests: { tenantId: text, query: input(page) },
  listPayloads: { query: input({ ...page, provider: optional(text) }) },
  listKeys: { tenantId: text, query: input({ ...page, applicationId: optional(text) }) },
  getKey: ofTenant,
  issueKey: {
    actor,
    input: input({ tenantId: text, applicationId: text, name: text, scopes: texts, expiresAt: optional(number), text: optional(secret) })
  },
  updateKey: { ...byActor, input: input({ ...guarded, name: text }) },
  rotateKey: { ...byActor, input: input({ overlap: number, expiresAt: optional(orNull(number)) }) },
  revokeKey: byActor,
  listDomains: { tenantId: text, query: input(page) },
  getDomain: ofTenant,
  domainNamed: { tenantId: text, name: text },
  createDomain: { actor, input: input({ id: optional(text), tenantId: text, domain }) },
  domainRecords: byActor,
  rotateDkim: byActor,
  recordChecks: { ...ofTenant, checks: listOf(check) },
  confirmDomain: byActor,
  setDomainSuspended: { ...byActor, suspended: truth },
  setCatchAll: { ...byActor, mailboxId: orNull(text) },
  removeDomain: { ...byActor, input: input(guarded) },
  listMailboxes: { tenantId: text, query: input({ ...page, domainId: optional(text) }) },
  getMailbox: ofTenant,
  createMailbox: { actor, input: input({ id: optional(text), tenantId: text, address, displayName: text }) },
  updateMailbox: { ...byActor, input: input({ ...guarded, displayName: optional(text), status: optional(status), reason: optional(text) }) },
  removeMailbox: { ...byActor, input: input(guarded) },
  listSuppressions: { realm, query: input(page) },
  addSuppression: { actor, realm, address },
  removeSuppression: { actor, realm, address }
}

export const webhookManagement: Calls<typeof WebhookManagement.Service> = {
  listEndpoints: { tenantId: text, query: input({ ...page, applicationId: optional(text) }) },
  getEndpoint: ofTenant,
  rotateSecret: { ...byActor, input: input({ overlap: number }) },
  disableEndpoint: byActor,
  enableEndpoint: { ...byActor, options: input({ replayDead: truth }) },
  replayDead: { ...byActor, since: number },
  sendTestEvent: { actor, input: input({ tenantId: text, applicationId: text, type: text }) },
  testEndpoint: { ...byActor, type: optional(text) }
}

/** Throws a TypeError that names each member at fault and what it wants. */
export const hold = (call: string, members: Members, args: ReadonlyArray<unknown>): void => {
  const faults = Object.entries(members).flatMap(([name, of], index) => of(name, args[index]))
  if (faults.length > 0) throw new TypeError(faults.map((fault) => `${call}: ${fault}`).join("\n"))
}
