/**
 * Reads what the scripts of the queue answer, and realms as the queue writes
 * them. Null: it is no answer that they give, for something else stands in the
 * server's place.
 */
import { Result } from "effect"
import type { Millis, Realm } from "../../core/model/Ids.ts"
import type { JobKind, Lease } from "../../core/ports/JobQueue.ts"
import { leaseLength } from "./QueueScripts.ts"
import { textsOf } from "./RedisClient.ts"

/** Of `steps`: one for each. */
export const answersOf = (answer: unknown, steps: number): ReadonlyArray<string> | null => {
  const texts = textsOf(answer)
  return texts?.length === steps && texts.every((text) => text === "" || text === "lost" || text === "emptied") ? texts : null
}

/** Of `look`: when there is work, a time or never. */
export const nextOf = (answer: unknown): Millis | null => {
  if (answer === "") return Infinity
  const next = typeof answer === "string" ? Number(answer) : NaN
  return Number.isNaN(next) ? null : next
}

/** Of `claim`: whether there may be more, the news of each kind that was asked for, and the leases. */
export const claimedOf = (answer: unknown, kinds: ReadonlyArray<JobKind>, expiresAt: Millis) => {
  const [more, ...texts] = textsOf(answer) ?? []
  const [news, parts] = [texts.slice(0, kinds.length), texts.slice(kinds.length)]
  const isWhole = (more === "" || more === "more") && news.length === kinds.length && parts.length % leaseLength === 0
  const leases = Array.from({ length: Math.floor(parts.length / leaseLength) }, (_, index) =>
    leaseOf(parts.slice(index * leaseLength, (index + 1) * leaseLength), kinds, expiresAt)
  )
  return isWhole && leases.every((lease) => lease !== null) ? { mayBeMore: more === "more", news, leases } : null
}

const leaseOf = (parts: ReadonlyArray<string>, kinds: ReadonlyArray<JobKind>, expiresAt: Millis): Lease | null => {
  const [name, subject = "", group = "", inRealm = "", due, token = "", claimed] = parts // as `claim` answers
  const [kind, realm, dueAt, claims] = [kinds.find((kind) => kind === name), realmOf(inRealm), Number(due), Number(claimed)]
  if (kind === undefined || realm === null || !Number.isFinite(dueAt) || !Number.isFinite(claims)) return null
  return { job: { kind, subject, realm, group, dueAt }, token, claims, expiresAt }
}

/** A realm as it stands in a job. */
export const realmText = ({ tenantId, environment }: Realm): string => JSON.stringify([tenantId, environment])

const realmOf = (text: string): Realm | null => {
  const parts = Result.getOrNull(Result.try(() => textsOf(JSON.parse(text))))
  if (parts?.length !== 2) return null
  const [tenantId, environment] = parts as unknown as [Realm["tenantId"], Realm["environment"]] // by realmText
  return { tenantId, environment }
}
