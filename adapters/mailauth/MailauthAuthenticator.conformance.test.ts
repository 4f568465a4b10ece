import { Effect, Redacted, Stream } from "effect"
import { authenticate, dkimSign } from "mailauth"
import { generateKeyPairSync } from "node:crypto"
import { suite, type Case } from "../../conformance/MailAuthenticator.ts"
import { conforms } from "../../conformance/vitest.ts"
import type { Peer } from "../../core/model/Reception.ts"
import * as Dkim from "../smtp/Dkim.ts"
import * as MailauthAuthenticator from "./MailauthAuthenticator.ts"
import * as Zone from "./Zone.ts"

const keyOf = (type: "rsa" | "ed25519", modulusLength = 2_048) => {
  const { privateKey, publicKey } = type === "rsa" ? generateKeyPairSync("rsa", { modulusLength }) : generateKeyPairSync("ed25519")
  const spki = publicKey.export({ type: "spki", format: "der" })
  const p = (type === "rsa" ? spki : spki.subarray(-32)).toString("base64")
  return { pem: String(privateKey.export({ type: "pkcs8", format: "pem" })), record: `v=DKIM1; k=${type}; p=${p}` }
}

const rsa = keyOf("rsa")
const ed25519 = keyOf("ed25519")
const [short, weak] = [keyOf("rsa", 1_024), keyOf("rsa", 512)]

const { resolve } = Zone.make({
  "TXT client.test": ["v=spf1 ip4:192.0.2.0/24 -all"],
  "TXT soft.test": ["v=spf1 ip4:192.0.2.0/24 ~all"],
  "TXT include.test": ["v=spf1 include:client.test -all"],
  "TXT six.test": ["v=spf1 ip6:2001:db8::/32 -all"],
  "TXT mx.test": ["v=spf1 mx -all"],
  "MX mx.test": [{ exchange: "mail.mx.test", priority: 10 }],
  "A mail.mx.test": ["192.0.2.1"],
  "TXT helo.test": ["v=spf1 ip4:192.0.2.0/24 -all"],
  "TXT twice.test": ["v=spf1 -all", "v=spf1 +all"],
  "TXT broken.test": "ESERVFAIL",
  "A client.test": ["192.0.2.1"],
  "TXT rsa._domainkey.client.test": [rsa.record],
  "TXT ed._domainkey.client.test": [ed25519.record],
  "TXT short._domainkey.client.test": [short.record],
  "TXT weak._domainkey.client.test": [weak.record],
  "TXT down._domainkey.client.test": "ESERVFAIL",
  "TXT rsa._domainkey.sub.client.test": [rsa.record],
  "TXT rsa._domainkey.other.test": [rsa.record],
  "TXT rsa._domainkey.strict.test": [rsa.record],
  "TXT rsa._domainkey.sub.strict.test": [rsa.record],
  "TXT _dmarc.client.test": ["v=DMARC1; p=reject; sp=quarantine"],
  "TXT _dmarc.strict.test": ["v=DMARC1; p=quarantine; adkim=s; aspf=s"],
  "TXT _dmarc.lenient.test": ["v=DMARC1; p=none"],
  "TXT _dmarc.broken.test": "ESERVFAIL"
})

const home: Peer = { remoteAddress: "192.0.2.1", helo: "mail.client.test", protocol: "ESMTPS" }
const abroad: Peer = { ...home, remoteAddress: "198.51.100.7" }

const text = (from: string) =>
  `From: Ada <${from}>\r\nTo: charles@ours.test\r\nSubject: Note G\r\nDate: Thu, 01 Jan 2026 00:00:00 +0000\r\nMessage-ID: <g@client.test>\r\n\r\nThe engine weaves.\r\n`

/** By our own signer, for the domain of the From field. */
const ours = async (from: string, selector: string, pem: string): Promise<string> => {
  const domain = from.split("@")[1]!
  const bytes = Buffer.from(text(from))
  const fields = await Effect.runPromise(Dkim.signer([{ domain, selector, privateKey: Redacted.make(pem) }])(Stream.make(bytes), null))
  return Buffer.from(fields).toString("latin1") + text(from)
}

/** By mailauth's, for any domain. */
const theirs = async (message: string, signingDomain: string, selector: string, pem: string): Promise<string> => {
  const key = { signingDomain, selector, privateKey: pem }
  const signed = await dkimSign(Buffer.from(message), { ...key, signatureData: [key] })
  return `${signed.signatures}${message}`
}

/** Sealed as a mailing list would. */
const sealed = async (message: string, sender: string): Promise<string> => {
  const { headers } = await authenticate(Buffer.from(message), {
    ip: home.remoteAddress,
    helo: home.helo,
    sender,
    mta: "list.client.test",
    resolver: async (name, type) => (await resolve(name, type)) as Array<string>,
    seal: { signingDomain: "client.test", selector: "rsa", privateKey: rsa.pem }
  })
  return `${headers}${message}`
}

const of = (title: string, message: string, expected: Case["expected"], over: Partial<Case> = {}): Case => ({
  title,
  peer: home,
  returnPath: "ada@client.test",
  message: Buffer.from(message),
  expected,
  ...over
})

const from = (domain: string) => ({ returnPath: `ada@${domain}` })
const signed = await ours("ada@client.test", "rsa", rsa.pem)
const throughList = await sealed(signed, "ada@client.test")

const cases: ReadonlyArray<Case> = [
  of("finds that all is well", signed, { spf: "pass", dkim: "pass", dmarc: "pass", arc: "none", dmarcPolicy: "reject" }),
  of("finds nothing of a message that nobody has signed", text("ada@nowhere.test"), { spf: "none", dkim: "none", dmarc: "none", arc: "none", dmarcPolicy: null }, from("nowhere.test")),
  of("finds that an Ed25519 signature holds", await ours("ada@client.test", "ed", ed25519.pem), { dkim: "pass" }, { peer: abroad }),
  of("finds that a signature of another signer holds", await theirs(text("ada@client.test"), "client.test", "rsa", rsa.pem), { dkim: "pass", dmarc: "pass" }, { peer: abroad }),
  of("finds a changed body", signed.replace("weaves", "leaves"), { dkim: "fail", dmarc: "fail", dmarcPolicy: "reject" }, { peer: abroad }),
  of("finds a changed subject", signed.replace("Note G", "Note H"), { dkim: "fail" }),
  of("finds a second From field", signed.replace("From: Ada", "From: eve@else.test\r\nFrom: Ada"), { dkim: "fail", dmarc: "permerror" }),
  of("finds a signature for a key that is too short", await theirs(text("ada@client.test"), "client.test", "weak", weak.pem), { dkim: "policy" }),
  of("finds that a signature by the shortest key that is good enough holds", await theirs(text("ada@client.test"), "client.test", "short", short.pem), { dkim: "pass" }),
  of("finds a signature for a key that is not there", await theirs(text("ada@client.test"), "client.test", "gone", rsa.pem), { dkim: "neutral" }),
  of("cannot tell of a signature whose key cannot be had", await theirs(text("ada@client.test"), "client.test", "down", rsa.pem), { dkim: "temperror" }),
  of("takes one signature that holds for enough", await theirs(signed, "client.test", "gone", rsa.pem), { dkim: "pass" }),
  of("takes one signature that holds for enough where another's key cannot be had", await theirs(signed, "client.test", "down", rsa.pem), { dkim: "pass" }),
  of("finds that another address may not send", text("ada@client.test"), { spf: "fail", dmarc: "fail", dmarcPolicy: "reject" }, { peer: abroad }),
  of("looks at a message that ends with its header", "From: Ada <ada@client.test>\r\nSubject: Note G\r\n", { spf: "fail", dmarc: "fail", dmarcPolicy: "reject" }, { peer: abroad }),
  of("finds that another address may hardly send", text("ada@soft.test"), { spf: "softfail", dmarc: "none" }, { peer: abroad, ...from("soft.test") }),
  of("finds an address by an include", text("ada@include.test"), { spf: "pass" }, from("include.test")),
  of("finds an address by an MX", text("ada@mx.test"), { spf: "pass" }, from("mx.test")),
  of("finds an IPv6 address", text("ada@six.test"), { spf: "pass" }, { ...from("six.test"), peer: { ...home, remoteAddress: "2001:db8::1" } }),
  of("asks for the name of the peer where there is no sender", text("ada@client.test"), { spf: "pass" }, { returnPath: null, peer: { ...home, helo: "helo.test" } }),
  of("does not take a Return-Path field for the sender", `Return-Path: <ada@client.test>\r\n${text("ada@client.test")}`, { spf: "none", dmarc: "fail" }, { returnPath: null, peer: { ...home, helo: "nowhere.test" } }),
  of("finds two SPF records wrong", text("ada@twice.test"), { spf: "permerror" }, from("twice.test")),
  of("cannot tell where the DNS does not answer", text("ada@broken.test"), { spf: "temperror", dmarc: "temperror", dmarcPolicy: null }, from("broken.test")),
  of("does not ask for the address of a relay of ours", text("ada@client.test"), { spf: "none", dmarc: "fail" }, { peer: { ...home, protocol: "LMTP", remoteAddress: "127.0.0.1" } }),
  of("does not ask for the address of a relay of ours over TLS", text("ada@client.test"), { spf: "none", dmarc: "fail" }, { peer: { ...home, protocol: "LMTPS", remoteAddress: "127.0.0.1" } }),
  of("finds a signature of the domain above aligned", await theirs(text("ada@sub.client.test"), "client.test", "rsa", rsa.pem), { dkim: "pass", dmarc: "pass", dmarcPolicy: "quarantine" }, { peer: abroad }),
  of("finds a signature of another domain not aligned", await theirs(text("ada@client.test"), "other.test", "rsa", rsa.pem), { dkim: "pass", dmarc: "fail" }, { peer: abroad }),
  of("finds a signature below the domain not aligned where that is asked for", await theirs(text("ada@strict.test"), "sub.strict.test", "rsa", rsa.pem), { dkim: "pass", dmarc: "fail", dmarcPolicy: "quarantine" }, { peer: abroad }),
  of("finds SPF of another domain not aligned", text("ada@lenient.test"), { spf: "pass", dmarc: "fail", dmarcPolicy: "none" }),
  of("finds an ARC chain whole", throughList, { arc: "pass", dkim: "pass" }),
  of("finds an ARC chain broken", throughList.replace(/(ARC-Seal:[^]*?\bb=)(....)/, "$1AAAA"), { arc: "fail" })
]

conforms("MailauthAuthenticator", suite({ cases }), MailauthAuthenticator.layerWith({ hostname: "mail.ours.test", resolve }))
