/** Requests as Amazon SNS makes them, signed by a key of one's own. For tests of what takes them. */
import { createHash, sign } from "node:crypto"
import type { Millis } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import type { IntakeRequest } from "../../core/ports/NotificationIntake.ts"
import { signedText, type SnsMessage } from "./SnsMessage.ts"

export const topic = "arn:aws:sns:eu-central-1:123456789012:mailroom"
export const certificateUrl = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem"
export const subscribeUrl = `https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=${topic}&Token=2336412f37f`

/** A notification of this text, unsigned. Its id follows from the text. */
export const message = (text: string, at: Millis, over: Partial<SnsMessage> = {}): SnsMessage => ({
  Type: "Notification",
  MessageId: createHash("sha256").update(text).digest("hex").slice(0, 32),
  TopicArn: topic,
  Message: text,
  Timestamp: Timestamp.fromMillis(at),
  SignatureVersion: text.length % 2 === 0 ? "1" : "2",
  Signature: "",
  SigningCertURL: certificateUrl,
  ...(text.length % 3 === 0 ? { Subject: "Amazon SES Email Event Notification" } : {}),
  ...over
})

/** What SNS posts when it asks whether a subscription is wanted. */
export const confirmation = (at: Millis, over: Partial<SnsMessage> = {}): SnsMessage =>
  message("You have chosen to subscribe to the topic.", at, {
    Type: "SubscriptionConfirmation",
    SubscribeURL: subscribeUrl,
    Token: "2336412f37f",
    ...over
  })

/** The message with a signature by this key, in PEM. */
export const signed = (unsigned: SnsMessage, privateKey: string): SnsMessage => ({
  ...unsigned,
  Signature: sign(unsigned.SignatureVersion === "1" ? "RSA-SHA1" : "RSA-SHA256", Buffer.from(signedText(unsigned)), privateKey).toString("base64")
})

/** With the headers of SNS, and the members that nobody signs. */
export const request = (signed: SnsMessage): IntakeRequest => ({
  headers: {
    "content-type": "text/plain; charset=UTF-8",
    "user-agent": "Amazon Simple Notification Service Agent",
    "x-amz-sns-message-type": signed.Type,
    "x-amz-sns-topic-arn": signed.TopicArn
  },
  body: new TextEncoder().encode(
    JSON.stringify({ ...signed, UnsubscribeURL: "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe" })
  )
})
