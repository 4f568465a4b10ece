/**
 * What Amazon SNS posts to an HTTPS endpoint, and what of it is signed. Every
 * member is text; what is said about mail is in `Message`, and is not looked at
 * here.
 */
import { Option, Result, Schema } from "effect"
import type { Millis } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"

const text = (lengthMax: number) => Schema.String.check(Schema.isMaxLength(lengthMax))

const SnsMessage = Schema.Struct({
  Type: Schema.Literals(["Notification", "SubscriptionConfirmation", "UnsubscribeConfirmation"]),
  MessageId: text(100).check(Schema.isMinLength(1)),
  TopicArn: text(512),
  Message: Schema.String,
  Timestamp: text(64),
  SignatureVersion: Schema.Literals(["1", "2"]),
  Signature: text(2_048),
  SigningCertURL: text(2_048),
  Subject: Schema.optionalKey(Schema.NullOr(Schema.String)),
  SubscribeURL: Schema.optionalKey(Schema.String),
  Token: Schema.optionalKey(Schema.String)
})
export type SnsMessage = typeof SnsMessage.Type

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(SnsMessage))

/** Null, if it is nothing that SNS sends. */
export const parse = (body: Uint8Array): SnsMessage | null =>
  Result.getOrNull(Result.flatMap(Result.try(() => utf8.decode(body)), decode))

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** The text that is signed: some members, by name, each name and value on a line. */
export const signedText = (message: SnsMessage): string => {
  const names = message.Type === "Notification" ? ofNotification : ofConfirmation
  return names.flatMap((name) => (message[name] == null ? [] : [`${name}\n${message[name]}\n`])).join("")
}

const ofNotification = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"] as const
const ofConfirmation = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"] as const

/** An instant as Amazon writes it; null if it is none. */
export const millisOf = (timestamp: string): Millis | null =>
  Option.getOrNull(Option.map(Timestamp.toMicros(timestamp), (micros) => Number(micros / 1000n)))
