/**
 * A mail domain and its health machine (Spec 2, Domain). `assess` is the one
 * function that reads the DNS checks; the API, the health event and the send
 * check all read the state that follows from it.
 */
import { Result, Schema } from "effect"
import { DomainName } from "./Address.ts"
import { DomainId, type MailboxId, type Millis, type TenantId } from "./Ids.ts"
import { domainGrace } from "./Limits.ts"
import { next, type IllegalTransition, type Table } from "./Machine.ts"
import type { SealedSecret } from "./SealedSecret.ts"

export const Health = Schema.Literals(["pending", "healthy", "degraded", "failing", "suspended"])
export type Health = typeof Health.Type

/** One DNS record we asked for. `since`: when it last left or entered `ok`. */
export interface RecordCheck {
  readonly record: "ownership" | "dkim" | "spf" | "dmarc" | "return_path" | "mx"
  readonly state: "ok" | "missing" | "mismatch" | "unknown"
  readonly expected: string
  readonly observed: string | null
  readonly since: Millis
}

export type Input = "Verified" | "Drifted" | "Lost" | "Suspended" | "Reinstated"

export const transitions = {
  pending: {
    Verified: { to: "healthy", emits: "domain.health_changed" },
    Drifted: { to: "degraded", emits: "domain.health_changed" },
    Suspended: { to: "suspended", emits: "domain.health_changed" }
  },
  healthy: {
    Drifted: { to: "degraded", emits: "domain.health_changed" },
    Lost: { to: "failing", emits: "domain.health_changed" },
    Suspended: { to: "suspended", emits: "domain.health_changed" }
  },
  degraded: {
    Verified: { to: "healthy", emits: "domain.health_changed" },
    Lost: { to: "failing", emits: "domain.health_changed" },
    Suspended: { to: "suspended", emits: "domain.health_changed" }
  },
  failing: {
    Verified: { to: "healthy", emits: "domain.health_changed" },
    Drifted: { to: "degraded", emits: "domain.health_changed" },
    Suspended: { to: "suspended", emits: "domain.health_changed" }
  },
  suspended: {
    Reinstated: { to: "pending", emits: "domain.health_changed" } // the next check decides
  }
} as const satisfies Table<Health, Input, "domain.health_changed">

/** A key that signs the domain's mail, at rest. Its public half stands at `<selector>._domainkey.<domain>`. */
export interface SealedDkimKey {
  readonly selector: string
  /** SubjectPublicKeyInfo, DER in base64: the record's `p`. */
  readonly publicKey: string
  /** PKCS #8 in PEM. */
  readonly privateKey: SealedSecret
}

export interface MailDomain {
  readonly id: DomainId
  readonly tenantId: TenantId
  readonly version: number
  readonly eventSequence: number
  readonly domain: DomainName
  readonly health: Health
  readonly checks: ReadonlyArray<RecordCheck>
  /** What the ownership record proves the claim with. It is no secret. Null until the first key is made. */
  readonly proof: string | null
  /** Signs. Null until its record was seen in DNS. */
  readonly dkim: SealedDkimKey | null
  /** Made, and not seen in DNS yet: takes the other's place when it is. */
  readonly nextDkim: SealedDkimKey | null
  /** When the checker looks at the records again; null for a domain whose state others vouch for. */
  readonly nextCheckAt: Millis | null
  /** The mailbox that mail to any other address of the domain goes to; null: to none. */
  readonly catchAll: MailboxId | null
  readonly createdAt: Millis
}

/** What a domain's DKIM keys are sealed to. */
export const sealContext = ({ tenantId, id }: Pick<MailDomain, "tenantId" | "id">): string => `domain ${tenantId} ${id}`

/** All that it has. */
export const secretsOf = ({ dkim, nextDkim }: Pick<MailDomain, "dkim" | "nextDkim">): ReadonlyArray<SealedSecret> =>
  [dkim, nextDkim].flatMap((key) => key?.privateKey ?? [])

/** The oldest sealing key that one of its secrets needs; null if it has none. */
export const sealVersion = (domain: Pick<MailDomain, "dkim" | "nextDkim">): number | null => {
  const versions = secretsOf(domain).map(({ version }) => version)
  return versions.length === 0 ? null : Math.min(...versions)
}

export interface Decision {
  readonly from: Health
  readonly to: Health
  readonly input: Input
}

/** Mail can be sent from a domain whose records of these kinds are in order; one that lacks others is degraded, and sends. */
export const essentialRecords = ["ownership", "dkim"] as const satisfies ReadonlyArray<RecordCheck["record"]>

/** Whether a record is one of these. */
export const isEssential = ({ record }: { readonly record: string }): boolean => essentialRecords.some((one) => one === record)

/**
 * What a round of checks amounts to: null while nothing can be said (a domain
 * that was never verified and is not yet; ownership or DKIM that we could not
 * look up, and of a domain that sends, any record).
 */
export const assess = (domain: MailDomain, checks: ReadonlyArray<RecordCheck>, now: Millis): Input | null => {
  const broken = checks.filter((check) => check.state === "missing" || check.state === "mismatch")
  const essential = broken.filter(isEssential)
  const isOk = (record: RecordCheck["record"]) => checks.some((check) => check.record === record && check.state === "ok")
  if (essential.length > 0) {
    if (domain.health === "pending" || domain.health === "failing") return null
    return essential.some((check) => now - check.since > domainGrace) ? "Lost" : "Drifted"
  }
  // Ownership and DKIM must have been seen: what was not looked up, or could not be, says nothing.
  if (!essentialRecords.every(isOk)) return null
  const unknown = checks.filter((check) => check.state === "unknown")
  if (unknown.length > 0 && isVerified(domain.health)) return null
  // A name of another record that nobody answers for, be it for ever, keeps no mail back: it is as it was seen last.
  const wasOk = ({ record }: RecordCheck) => domain.checks.some((check) => check.record === record && check.state === "ok")
  return broken.length > 0 || !unknown.every(wasOk) ? "Drifted" : "Verified"
}

/** What this input would do to this domain. Changes nothing. */
export const decide = (domain: MailDomain, input: Input): Result.Result<Decision, IllegalTransition> =>
  Result.map(next<Health, Input, "domain.health_changed">("domain", transitions, domain.health, input), (cell) => ({
    from: domain.health,
    to: cell.to,
    input
  }))

/** The domain after a decision, one version on. */
export const apply = (domain: MailDomain, decision: Decision): MailDomain => ({
  ...domain,
  version: domain.version + 1,
  health: decision.to
})

/** Whether mail may be sent from it, and is taken for it. The same states are shown as `verified`. */
export const isVerified = (health: Health): boolean => health === "healthy" || health === "degraded"

/**
 * Whether mail is taken for it. What is verified receives. A domain whose records went astray receives `later`, for its
 * mail servers' peers keep what we do not take for days, and so does one that waits for a check after its suspension; one
 * that was never shown to be its tenant's, by a key of ours in its DNS, is nobody's.
 */
export const receives = ({ health, dkim }: Pick<MailDomain, "health" | "dkim">): "now" | "later" | "suspended" | "never" => {
  if (isVerified(health)) return "now"
  if (health === "suspended") return "suspended"
  return health === "failing" || dkim !== null ? "later" : "never"
}

/** The Domain resource (Spec 2; closed). */
export const View = Schema.Struct({
  id: DomainId,
  domain: Schema.String,
  verified: Schema.Boolean,
  health: Health,
  mailboxCount: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
})
