/** The thread's side of Threads: reads messages as they come, several at a time, and asks whoever started it for names. */
import { authenticate, type AuthenticateResult } from "mailauth"
import { PassThrough } from "node:stream"
import { parentPort } from "node:worker_threads"
import type { Authentication, Examined } from "../../core/model/Reception.ts"
import * as Header from "./Header.ts"
import type { FromThread, Opening, Purpose, ToThread } from "./Threads.ts"

interface Work {
  readonly input: PassThrough
  readonly header: Header.Header
  readonly asked: Map<number, { readonly resolve: (records: Array<string>) => void; readonly reject: (error: Error) => void }>
}

const works = new Map<number, Work>()

const say = (message: FromThread): void => parentPort?.postMessage(message, [])

const begin = (id: number, opening: Opening): void => {
  const work: Work = { input: new PassThrough(), header: Header.make(), asked: new Map() }
  works.set(id, work)
  let asks = 0
  const resolver = (name: string, type: string) =>
    new Promise<Array<string>>((resolve, reject) => {
      asks += 1
      work.asked.set(asks, { resolve, reject })
      say({ _tag: "Ask", id, ask: asks, purpose: purposeOf(name, type, work.header), name, type })
    })
  const options = { ...opening, resolver, minBitLength: 1_024, rejectRsaSha1: true, disableBimi: true }
  const isRelayed = opening.ip === ""
  void authenticate(work.input, options)
    .then((result) => told(result, work.header, isRelayed))
    .catch(() => null)
    .then((found) => {
      // Whoever has given up reading still lets the rest through.
      work.input.resume()
      if (works.get(id) === work) say({ _tag: "Found", id, found })
    })
}

/** The sender may name hosts as policies and keys are named, and have the author's policy go unasked. */
const purposeOf = (name: string, type: string, header: Header.Header): Purpose =>
  type === "TXT" && header.isPolicyOf(name) ? "policy" : /\._domainkey\./i.test(name) ? "key" : "sender"

const told = ({ spf, dkim, dmarc, arc, dmarcSkipReason }: AuthenticateResult, header: Header.Header, isRelayed: boolean): Examined => ({
  spf: isRelayed || spf === false ? "none" : spf.status.result,
  dkim: header.isCut() ? "permerror" : best(dkim.results.map(ofSignature)),
  dmarc: dmarcOf(dmarc === false ? (dmarcSkipReason === undefined ? "none" : "permerror") : dmarc.status.result, header),
  arc: arc === false ? "none" : arc.status.result,
  dmarcPolicy: header.lacksAuthor() || dmarc === false ? null : policyOf(dmarc.policy),
  author: header.lacksAuthor() || dmarc === false ? null : (dmarc.status.header?.from?.replace(/\.$/, "") ?? null)
})

/** Without one author there is nobody to ask; and where it may be another who is shown, nobody passes. */
const dmarcOf = (result: string, header: Header.Header): string =>
  header.lacksAuthor() || (result === "pass" && header.isAmbiguous()) ? "permerror" : result

/** A body that is not the signed one fails; mailauth calls that neutral. */
const ofSignature = ({ status, bodyHash, bodyHashExpecting }: AuthenticateResult["dkim"]["results"][number]): string =>
  status.result === "neutral" && typeof bodyHash === "string" && bodyHash !== bodyHashExpecting ? "fail" : status.result

/** One good signature is enough; else what may yet be one, and then the worst. */
const best = (results: ReadonlyArray<string>): string =>
  ["pass", "temperror", "fail", "policy", "neutral", "permerror"].find((result) => results.includes(result)) ?? "none"

const policyOf = (policy: string | undefined): Authentication["dmarcPolicy"] =>
  policy === "none" || policy === "quarantine" || policy === "reject" ? policy : null

/** Says so when there is room for more. */
const write = (id: number, { input }: Work, pieces: ReadonlyArray<Uint8Array>): void => {
  let hasRoom = true
  for (const piece of pieces) hasRoom = input.write(piece)
  const more = () => void setImmediate(() => say({ _tag: "More", id }))
  if (hasRoom || input.destroyed) more()
  else input.once("drain", more)
}

parentPort?.on("message", (message: ToThread) => {
  if (message._tag === "Begin") return begin(message.id, message.opening)
  const work = works.get(message.id)
  if (message._tag === "Stop") {
    works.delete(message.id)
    work?.input.destroy()
    return say({ _tag: "Stopped", id: message.id })
  }
  if (work === undefined) return
  switch (message._tag) {
    case "Bytes":
      return write(message.id, work, work.header.read(message.bytes))
    case "End":
      for (const piece of work.header.end()) work.input.write(piece)
      return void work.input.end()
    case "Name": {
      const asked = work.asked.get(message.ask)
      work.asked.delete(message.ask)
      const { answer } = message
      // By their type: mailauth reads each record as what it asked for.
      return "records" in answer
        ? asked?.resolve([...answer.records] as Array<string>)
        : asked?.reject(Object.assign(new Error(answer.code), { code: answer.code }))
    }
  }
})
