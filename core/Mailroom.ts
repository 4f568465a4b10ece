/**
 * The whole core as Layers over the ports: what a caller asks (`operations`),
 * what happens after a 202 (`jobs`), and both (`layer`).
 */
import { Layer } from "effect"
import { CheckDomains } from "./jobs/CheckDomains.ts"
import { DeliverWebhook } from "./jobs/DeliverWebhook.ts"
import { EventRelay } from "./jobs/EventRelay.ts"
import { FirstAttempts } from "./jobs/FirstAttempts.ts"
import { ParseMessage } from "./jobs/ParseMessage.ts"
import { PollProvider } from "./jobs/PollProvider.ts"
import { RecordAttempts } from "./jobs/RecordAttempts.ts"
import { ScanAttachment } from "./jobs/ScanAttachment.ts"
import { SubmitMessage } from "./jobs/SubmitMessage.ts"
import { Sweep } from "./jobs/Sweep.ts"
import { WebhookAttempts } from "./jobs/WebhookAttempts.ts"
import { Worker } from "./jobs/Worker.ts"
import { Access } from "./operations/Access.ts"
import { Attachments } from "./operations/Attachments.ts"
import { Events } from "./operations/Events.ts"
import { Mailboxes } from "./operations/Mailboxes.ts"
import { Management } from "./operations/Management.ts"
import { Notifications } from "./operations/Notifications.ts"
import { Messages } from "./operations/Messages.ts"
import { Receive } from "./operations/Receive.ts"
import { RecordNotification } from "./operations/RecordNotification.ts"
import { RecordReport } from "./operations/RecordReport.ts"
import { RequestLog } from "./operations/RequestLog.ts"
import { WebhookManagement } from "./operations/WebhookManagement.ts"
import { Webhooks } from "./operations/Webhooks.ts"

/** Access, Messages, Attachments, Events, Mailboxes, Webhooks, Receive, Notifications, Management, WebhookManagement and RequestLog. */
export const operations = Layer.mergeAll(
  Access.layer,
  Messages.layer,
  Attachments.layer,
  Events.layer,
  Mailboxes.layer,
  Webhooks.layer,
  Notifications.layer.pipe(Layer.provide(RecordNotification.layer)),
  Layer.provide(Receive.layer, RecordReport.layer),
  Management.layer,
  WebhookManagement.layer
).pipe(Layer.provideMerge(RequestLog.layer))

/** EventRelay, Worker, Sweep and CheckDomains, whose ticks do all that is due, and RecordNotification, which takes in what providers push. */
export const jobs = Layer.mergeAll(
  Layer.provide(EventRelay.layer, FirstAttempts.layer),
  Worker.layer.pipe(
    Layer.provide([SubmitMessage.layer, ScanAttachment.layer, PollProvider.layer, DeliverWebhook.layer, ParseMessage.layer]),
    Layer.provide(RecordReport.layer)
  ),
  Sweep.layer,
  CheckDomains.layer
).pipe(Layer.provide(Layer.provideMerge(RecordAttempts.layer, WebhookAttempts.layer)), Layer.provideMerge(RecordNotification.layer))

/** The whole core. Needs every port but none of the runtimes; build it once per process. */
export const layer = Layer.merge(operations, jobs)
