/**
 * The indexes that the migrations leave, those of keys among them, without which two rows come to have one key. A restore
 * makes them last: one that broke off has all rows and lacks these.
 */

/** By table, whose name each one's begins with. */
const parts = {
  api_key: ["list", "pkey", "public_id_key"],
  application: ["list", "pkey"],
  attachment: ["blob", "pkey", "scan", "unused", "used"],
  audit: ["pkey"],
  blob: ["pkey"],
  blob_part: ["pkey"],
  blob_upload: ["pkey"],
  day_count: ["day", "pkey"],
  delivery: ["dead", "due", "ended", "endpoint_page", "page", "pkey"],
  delivery_body: ["pkey"],
  domain: ["check", "domain_key", "list", "pkey", "seal"],
  endpoint: ["enabled", "list", "pkey", "seal"],
  event: ["page", "pkey", "time"],
  job: ["leased", "pkey", "ready", "waiting"],
  job_epoch: ["pkey"],
  job_throttle: ["pkey", "until"],
  log_front: ["pkey"],
  log_head: ["pkey"],
  mailbox: ["domain_list", "folded_address_key", "list", "pkey"],
  message: ["age", "blob", "mailbox_page", "page", "parse", "pkey", "poll", "submit"],
  message_content: ["pkey"],
  migration: ["pkey"],
  notification: ["kept", "pkey", "ref"],
  payload: ["age", "number", "of", "pkey"],
  plan: ["pkey"],
  queued_attachment: ["message", "pkey"],
  quota: ["day", "pkey"],
  relay: ["pkey"],
  request: ["age", "pkey"],
  reservation: ["expiry", "pkey"],
  submission: ["message", "pkey"],
  suppression: ["pkey"],
  tenant: ["pkey"],
  tenant_log: ["pkey"]
}

export const names: ReadonlyArray<string> = Object.entries(parts).flatMap(([table, own]) => own.map((part) => `${table}_${part}`)).toSorted()
