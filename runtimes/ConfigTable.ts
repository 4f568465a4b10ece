/**
 * The table of all settings: their names, what they want, what they are for,
 * and what they are when nobody sets them. `Config.ts` reads an environment by
 * it, and `docs/configuration.md` is written from it.
 */
import { Result } from "effect"
import { isIP } from "node:net"
import { parse, parseDomain, type Address, type DomainName } from "../core/model/Address.ts"
import * as Backoff from "../core/model/Backoff.ts"
import * as Limits from "../core/model/Limits.ts"
import * as Values from "./ConfigValues.ts"

export interface Setting<A> {
  readonly name: `MAILROOM_${string}`
  /** What a value must be, to follow "wants". */
  readonly wants: string
  readonly about: string
  readonly fallback: string
  readonly parse: (text: string) => Values.Parsed<A>
  /** Not repeated in a fault, and may stand in a file that `<name>_FILE` names. */
  readonly isSecret?: boolean
  /** A name beside ours that hosts set by themselves; ours goes before it. */
  readonly alias?: string
}

const setting = <A>(options: Setting<A>): Setting<A> => options

export const settings = {
  mode: setting({
    name: "MAILROOM_MODE",
    wants: "`production` or `development`",
    about: "`dev` sets development, and does not start in production.",
    fallback: "production",
    parse: Values.oneOf(["production", "development"])
  }),
  host: setting({
    name: "MAILROOM_HOST",
    wants: "an IP address to listen on",
    about: "Where the HTTP server listens.",
    fallback: "127.0.0.1",
    parse: (text) => (isIP(text) === 0 ? Result.fail(text) : Result.succeed(text))
  }),
  port: setting({
    name: "MAILROOM_PORT",
    wants: "a port from 0 to 65535 (0: any free one)",
    about: "The HTTP server's port. `--port` of `dev` goes before it.",
    fallback: "3025",
    parse: Values.integer(0, 65_535)
  }),
  connectionsMax: setting({
    name: "MAILROOM_CONNECTIONS_MAX",
    wants: "a whole number from 10 to 1000000",
    about: "Connections that `serve` holds at a time; further ones are closed at once. More want as many open files, and memory.",
    fallback: "10000",
    parse: Values.integer(10, 1_000_000)
  }),
  publicUrl: setting({
    name: "MAILROOM_PUBLIC_URL",
    wants: "`https://` or `http://`, a host, and a path if there is one, such as `https://mail.example` or `https://example.com/mail`, without a user or query",
    about: "Where clients reach the service, for the document that it serves; with the path that a proxy takes off. Without it, where it listens.",
    fallback: "",
    parse: Values.optional(Values.base)
  }),
  workerPort: setting({
    name: "MAILROOM_WORKER_PORT",
    wants: "a port from 0 to 65535 (0: any free one)",
    about: "Where `worker` answers `/healthz`, `/readyz` and `/metrics`, at the address of `MAILROOM_HOST`. Without it, it listens nowhere.",
    fallback: "",
    parse: Values.optional(Values.integer(0, 65_535))
  }),
  databaseUrl: setting({
    name: "MAILROOM_DATABASE_URL",
    alias: "DATABASE_URL",
    wants: "a URL such as `postgres://user:password@host:5432/database?sslmode=require`, the password percent-encoded",
    about: "The PostgreSQL database, version 15 or later. Of several hosts (`host1:5432,host2:5432`) the primary is used, whichever it is; a server of this machine may be named by the folder of its socket (`postgres://user@/database?host=/run/postgresql`). Every command wants it that runs a deployment or manages one; without it `dev` has a database of its own in its folder.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.postgresUrl))
  }),
  databasePool: setting({
    name: "MAILROOM_DATABASE_POOL",
    wants: "a whole number from 2 to 200",
    about: "Connections to the database, at most, for each process.",
    fallback: "10",
    parse: Values.integer(2, 200)
  }),
  databasePrepare: setting({
    name: "MAILROOM_DATABASE_PREPARE",
    wants: "`true` or `false`",
    about: "Whether statements are prepared once per connection. `false` behind a pooler that does not keep them.",
    fallback: "true",
    parse: Values.boolean
  }),
  redisUrl: setting({
    name: "MAILROOM_REDIS_URL",
    wants: "a URL such as `rediss://user:password@host:6379/0`, the password percent-encoded, and no parameters",
    about: "Redis counts requests when it is set, exactly over all processes. It never holds the truth. `rediss:` is Redis by TLS, `unix:///run/redis.sock?db=0` one of this machine by its socket.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.redisUrl))
  }),
  queue: setting({
    name: "MAILROOM_QUEUE",
    wants: "`postgres` or `redis`",
    about: "What hands out the work. With `postgres` it is written in the same transaction as what it is about.",
    fallback: "postgres",
    parse: Values.oneOf(["postgres", "redis"])
  }),
  blobs: setting({
    name: "MAILROOM_BLOBS",
    wants: "`postgres`, or a folder as `/path` or `./path`",
    about: "Where the bytes of attachments are kept, and of messages as they were built or came in. A folder must be one for all processes. `dev` keeps them in its own.",
    fallback: "postgres",
    parse: Values.blobPlace
  }),
  sealingKeys: setting({
    name: "MAILROOM_SEALING_KEYS",
    wants: "`version:key`, separated by commas or lines, each key 32 bytes in base64",
    about: "The keys that webhook secrets and DKIM keys are sealed with. The highest version seals, every version opens, and the lowest signs bounce addresses and cursors of events. `mailroom sealing generate` makes one; without these keys a backup is no backup.",
    fallback: "",
    isSecret: true,
    parse: Values.keyRing
  }),
  metrics: setting({
    name: "MAILROOM_METRICS",
    wants: "`token` or `open`",
    about: "Who may read `/metrics`: who sends `MAILROOM_METRICS_TOKEN` (without one, nobody), or everybody who reaches the port. `dev` says open unless it is set.",
    fallback: "token",
    parse: Values.oneOf(["token", "open"])
  }),
  metricsToken: setting({
    name: "MAILROOM_METRICS_TOKEN",
    wants: "at least 16 characters without spaces",
    about: "What a scraper of `/metrics` sends as `Authorization: Bearer …`.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret((text) => (/^[\x21-\x7e]{16,}$/.test(text) ? Result.succeed(text) : Result.fail(text))))
  }),
  otlpEndpoint: setting({
    name: "MAILROOM_OTLP_ENDPOINT",
    wants: "a URL such as `http://localhost:4318`, without a user or query: a credential goes into `MAILROOM_OTLP_HEADERS`",
    about: "The OpenTelemetry collector that gets traces, by OTLP over HTTP in JSON. Without it nothing is traced.",
    fallback: "",
    parse: Values.optional(Values.webUrl)
  }),
  otlpHeaders: setting({
    name: "MAILROOM_OTLP_HEADERS",
    wants: "`name=value`, separated by commas, values percent-encoded",
    about: "Headers of requests to the collector, such as its credential.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.headers))
  }),
  data: setting({
    name: "MAILROOM_DATA",
    wants: "a folder",
    about: "Where `dev` keeps what it keeps. `--data` goes before it.",
    fallback: ".mailroom",
    parse: (text) => (text === "" || text.includes("\0") ? Result.fail(text) : Result.succeed(text))
  }),
  devDomain: setting({
    name: "MAILROOM_DEV_DOMAIN",
    wants: "a domain name",
    about: "The domain of the mailboxes that `dev` makes. One of your own, if its production mail is to be taken by a real mail server.",
    fallback: "dev.example",
    parse: (text): Values.Parsed<DomainName> => parseDomain(text)
  }),
  logLevel: setting({
    name: "MAILROOM_LOG_LEVEL",
    wants: "`Debug`, `Info`, `Warn` or `Error`",
    about: "The least level that is logged, in upper or lower case. Logs are JSON lines on standard error. On a terminal `dev` uses Warn unless it is set.",
    fallback: "Info",
    parse: (text) => Values.oneOf(["Debug", "Info", "Warn", "Error"])(text.charAt(0).toUpperCase() + text.slice(1).toLowerCase())
  }),
  ipRequestsPerMinute: setting({
    name: "MAILROOM_IP_REQUESTS_PER_MINUTE",
    wants: "a whole number from 1 to 1000000",
    about: "The IP guard: requests in any 60 seconds from one address, or one IPv6 /64. `dev` uses 6000 unless it is set.",
    fallback: String(Limits.ipRequestsPerMinute),
    parse: Values.integer(1, 1_000_000)
  }),
  trustedProxies: setting({
    name: "MAILROOM_TRUSTED_PROXIES",
    wants: "IP addresses or CIDR ranges, separated by commas",
    about: "Peers whose `X-Forwarded-For` names the client. Without it, forwarding headers mean nothing.",
    fallback: "",
    parse: Values.ranges
  }),
  bounceDomain: setting({
    name: "MAILROOM_BOUNCE_DOMAIN",
    wants: "a domain name",
    about: "Bounces come back to a signed address there. Without it they go to the sending mailbox. `dev` needs it to hear of bounces of what it sends for real, for its mailboxes take mail for the sandbox.",
    fallback: "",
    parse: Values.optional<DomainName>(parseDomain)
  }),
  spf: setting({
    name: "MAILROOM_SPF",
    wants: "SPF terms separated by spaces, such as `include:spf.example.net ip4:192.0.2.1`",
    about: "What covers the addresses that our mail leaves from. Domains are asked for an SPF record that holds it, unless `MAILROOM_BOUNCE_DOMAIN` is set: then SPF is looked up there.",
    fallback: "",
    parse: Values.spfTerms
  }),
  mxHost: setting({
    name: "MAILROOM_MX_HOST",
    wants: "a host name",
    about: "Where mail for our domains comes in. Domains that receive mail name it in their MX record.",
    fallback: "",
    parse: Values.optional<DomainName>(parseDomain)
  }),
  eventRetentionDays: setting({
    name: "MAILROOM_EVENT_RETENTION_DAYS",
    wants: "a whole number from 1 to 3650",
    about: "For how many days events can be listed; the same for all processes. Deliveries that have ended and the request log are kept as long.",
    fallback: String(Limits.eventRetentionDefault / 86_400_000),
    parse: Values.integer(1, 3_650)
  }),
  messageRetentionDays: setting({
    name: "MAILROOM_MESSAGE_RETENTION_DAYS",
    wants: "a whole number from 1 to 36500",
    about: "For how many days messages are kept, with their content and attachments. Without it they are kept for good.",
    fallback: "",
    parse: Values.optional(Values.integer(1, 36_500))
  }),
  provider: setting({
    name: "MAILROOM_PROVIDER",
    wants: "`smtp`, `ses` or `postmark`",
    about: "Who takes production mail: a mail server, Amazon SES or Postmark. Sandbox mail goes to none of them.",
    fallback: "smtp",
    parse: Values.oneOf(["smtp", "ses", "postmark"])
  }),
  smtpHost: setting({
    name: "MAILROOM_SMTP_HOST",
    wants: "a host name or an IP address",
    about: "The mail server that takes production mail. Without it production mail waits. Sandbox mail never goes there.",
    fallback: "",
    parse: Values.optional((text) => (isIP(text) !== 0 || /^[A-Za-z0-9.-]{1,253}$/.test(text) ? Result.succeed(text) : Result.fail(text)))
  }),
  smtpPort: setting({
    name: "MAILROOM_SMTP_PORT",
    wants: "a port from 1 to 65535",
    about: "The mail server's port: 587 for `starttls`, 465 for `implicit`.",
    fallback: "587",
    parse: Values.integer(1, 65_535)
  }),
  smtpTls: setting({
    name: "MAILROOM_SMTP_TLS",
    wants: "`starttls`, `implicit` or `none`",
    about: "How the connection is encrypted. A server that does not offer it gets no mail. `none` is for a relay on this machine, or on a network that is yours alone.",
    fallback: "starttls",
    parse: Values.oneOf(["starttls", "implicit", "none"])
  }),
  smtpUser: setting({
    name: "MAILROOM_SMTP_USER",
    wants: "a user name, in one line",
    about: "Whom to sign in as. Without it nobody signs in.",
    fallback: "",
    parse: Values.optional(Values.line)
  }),
  smtpPassword: setting({
    name: "MAILROOM_SMTP_PASSWORD",
    wants: "a password, in one line",
    about: "That user's password.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.line))
  }),
  smtpCa: setting({
    name: "MAILROOM_SMTP_CA_FILE",
    wants: "a file",
    about: "Certificates in PEM that are trusted for the mail server, beside those that Node trusts.",
    fallback: "",
    parse: Values.optional(Values.anyText)
  }),
  dkimFile: setting({
    name: "MAILROOM_DKIM_FILE",
    wants: "a file",
    about: "A JSON list of `{domain, selector, privateKey}`, the key in PEM: mail from these domains is signed with DKIM.",
    fallback: "",
    parse: Values.optional(Values.anyText)
  }),
  sesRegion: setting({
    name: "MAILROOM_SES_REGION",
    wants: "an AWS region such as `eu-central-1`",
    about: "The region of Amazon SES.",
    fallback: "",
    parse: Values.optional(Values.matching(/^(?:[a-z]{2}|eusc)(?:-[a-z]+)+-\d{1,2}$/))
  }),
  sesAccessKeyId: setting({
    name: "MAILROOM_SES_ACCESS_KEY_ID",
    wants: "an access key id",
    about: "The key that calls SES. Without it, the one that the AWS SDK finds: in its own variables, a profile, or the role of the machine.",
    fallback: "",
    parse: Values.optional(Values.matching(/^[A-Z0-9]{16,128}$/))
  }),
  sesSecretAccessKey: setting({
    name: "MAILROOM_SES_SECRET_ACCESS_KEY",
    wants: "a secret access key, in one line",
    about: "That key's secret.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.line))
  }),
  sesConfigurationSet: setting({
    name: "MAILROOM_SES_CONFIGURATION_SET",
    wants: "the name of a configuration set",
    about: "The configuration set that mail is sent with, whose events SES publishes.",
    fallback: "",
    parse: Values.optional(Values.matching(/^[A-Za-z0-9_-]{1,64}$/))
  }),
  sesTopics: setting({
    name: "MAILROOM_SES_TOPICS",
    wants: "ARNs of SNS topics, separated by commas",
    about: "The topics by which SES says what became of mail. `serve` takes them in at `/providers/ses/notifications`, and confirms its subscription to them.",
    fallback: "",
    parse: Values.topics
  }),
  postmarkToken: setting({
    name: "MAILROOM_POSTMARK_TOKEN",
    wants: "a server API token",
    about: "The token of the Postmark server that takes mail.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.matching(/^[\x21-\x7e]+$/)))
  }),
  postmarkStream: setting({
    name: "MAILROOM_POSTMARK_STREAM",
    wants: "the id of a message stream",
    about: "The message stream that mail is sent by. Without it, `outbound`.",
    fallback: "",
    parse: Values.optional(Values.matching(/^[a-z0-9_-]{1,30}$/))
  }),
  postmarkServerId: setting({
    name: "MAILROOM_POSTMARK_SERVER_ID",
    wants: "a whole number",
    about: "The id of the Postmark server. Webhooks of another are refused.",
    fallback: "",
    parse: Values.optional(Values.integer(1, 999_999_999))
  }),
  postmarkWebhookSecret: setting({
    name: "MAILROOM_POSTMARK_WEBHOOK_SECRET",
    wants: "at least 16 characters without spaces",
    about: "What Postmark's webhooks show, as the password of basic authentication or as a bearer token. `serve` takes them in at `/providers/postmark/notifications`.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.matching(/^[\x21-\x7e]{16,}$/)))
  }),
  inboundHost: setting({
    name: "MAILROOM_INBOUND_HOST",
    wants: "an IP address to listen on",
    about: "Where `smtp` listens for mail; `::` or `0.0.0.0` for the world. `dev` listens there too.",
    fallback: "127.0.0.1",
    parse: (text) => (isIP(text) === 0 ? Result.fail(text) : Result.succeed(text))
  }),
  inboundPort: setting({
    name: "MAILROOM_INBOUND_PORT",
    wants: "a port from 0 to 65535 (0: any free one)",
    about: "The port for SMTP: 25, if other mail servers are to find it. `dev` takes any free one, and 2525 if it can.",
    fallback: "2525",
    parse: Values.integer(0, 65_535)
  }),
  inboundTlsPort: setting({
    name: "MAILROOM_INBOUND_TLS_PORT",
    wants: "a port from 0 to 65535 (0: any free one)",
    about: "A second port, with TLS from the first byte. Without it there is none.",
    fallback: "",
    parse: Values.optional(Values.integer(0, 65_535))
  }),
  inboundLmtp: setting({
    name: "MAILROOM_INBOUND_LMTP",
    wants: "host:port, or the path of a socket",
    about: "Where `smtp` listens for LMTP, for a mail server that stands before it. Without it, nowhere.",
    fallback: "",
    parse: Values.optional(Values.socketAddress)
  }),
  inboundHostname: setting({
    name: "MAILROOM_INBOUND_HOSTNAME",
    wants: "a host name",
    about: "What `smtp` calls itself: the name that MX records point at. Without it, this machine's.",
    fallback: "",
    parse: Values.optional((text) => (/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(text) ? Result.succeed(text) : Result.fail(text)))
  }),
  inboundTlsCert: setting({
    name: "MAILROOM_INBOUND_TLS_CERT_FILE",
    wants: "a file",
    about: "The certificate and its chain in PEM, for STARTTLS. Without it, mail comes in clear text. It is read anew each minute.",
    fallback: "",
    parse: Values.optional(Values.anyText)
  }),
  inboundTlsKey: setting({
    name: "MAILROOM_INBOUND_TLS_KEY_FILE",
    wants: "a file",
    about: "The key of that certificate, in PEM.",
    fallback: "",
    parse: Values.optional(Values.anyText)
  }),
  inboundSizeMax: setting({
    name: "MAILROOM_INBOUND_SIZE_MAX",
    wants: "a whole number of bytes from 65536 to 104857600",
    about: "The largest message that is taken.",
    fallback: String(50 * 1024 * 1024),
    parse: Values.integer(65_536, 104_857_600)
  }),
  inboundProxies: setting({
    name: "MAILROOM_INBOUND_PROXIES",
    wants: "IP addresses or CIDR ranges, separated by commas",
    about: "Peers whose connections begin with a PROXY line (version 1) and are those of whom it names. Nobody else may send one.",
    fallback: "",
    parse: Values.ranges
  }),
  inboundPostmaster: setting({
    name: "MAILROOM_INBOUND_POSTMASTER",
    wants: "an address such as `ops@mail.example`",
    about: "The mailbox that takes mail for `postmaster`: without a domain, at this host's name, and at `MAILROOM_BOUNCE_DOMAIN`. Without it such mail is refused, which RFC 5321 (4.5.1) does not want.",
    fallback: "",
    parse: Values.optional<Address>(parse)
  }),
  inboundDmarc: setting({
    name: "MAILROOM_INBOUND_DMARC",
    wants: "`refuse`, `spam` or `off`",
    about: "What becomes of mail that fails DMARC where its domain asks to reject it. `off`: nobody asks whom mail is from, as in `dev`, or behind a mail server that has asked.",
    fallback: "refuse",
    parse: Values.oneOf(["refuse", "spam", "off"])
  }),
  inboundPerMinute: setting({
    name: "MAILROOM_INBOUND_PER_MINUTE",
    wants: "a whole number from 1 to 1000000",
    about: "Messages that a mailbox takes in any 60 seconds, from each `smtp` process. Who brings more is answered 450 and comes again.",
    fallback: String(Limits.inboundPerMinute),
    parse: Values.integer(1, 1_000_000)
  }),
  inboundRspamd: setting({
    name: "MAILROOM_INBOUND_RSPAMD",
    wants: "a URL such as `http://127.0.0.1:11333`, without a user or query: a password goes into `MAILROOM_INBOUND_RSPAMD_PASSWORD`",
    about: "The Rspamd that judges what comes in. While it is away, mail is taken as if there were none.",
    fallback: "",
    parse: Values.optional(Values.webUrl)
  }),
  inboundRspamdPassword: setting({
    name: "MAILROOM_INBOUND_RSPAMD_PASSWORD",
    wants: "a password, in one line",
    about: "Its password, if it wants one.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.line))
  }),
  inboundHealthPort: setting({
    name: "MAILROOM_INBOUND_HEALTH_PORT",
    wants: "a port from 0 to 65535 (0: any free one)",
    about: "Where `smtp` answers `/healthz`, `/readyz` and `/metrics`, at the address of `MAILROOM_HOST`. Without it, nowhere.",
    fallback: "",
    parse: Values.optional(Values.integer(0, 65_535))
  }),
  scanner: setting({
    name: "MAILROOM_SCANNER",
    wants: "`clamd`, `none` or `eicar`",
    about: "What looks for malware in attachments. `none` passes them unscanned; `eicar` finds only the test file, and is what development has unless it is set. A production `worker` wants one named.",
    fallback: "",
    parse: Values.optional(Values.oneOf(["clamd", "none", "eicar"]))
  }),
  clamd: setting({
    name: "MAILROOM_CLAMD",
    wants: "host:port, or the path of a socket",
    about: "Where clamd listens, for the scanner `clamd`.",
    fallback: "127.0.0.1:3310",
    parse: Values.socketAddress
  }),
  webhookAllowHttp: setting({
    name: "MAILROOM_WEBHOOK_ALLOW_HTTP",
    wants: "`true` or `false`",
    about: "Whether webhooks may go to plain http. `dev` says true unless it is set; production refuses it.",
    fallback: "false",
    parse: Values.boolean
  }),
  webhookAllowedAddresses: setting({
    name: "MAILROOM_WEBHOOK_ALLOWED_ADDRESSES",
    wants: "IP addresses or CIDR ranges, separated by commas",
    about: "Addresses that are not public and may get webhooks all the same. `dev` allows loopback unless it is set; production refuses any.",
    fallback: "",
    parse: Values.ranges
  }),
  webhookBackoff: setting({
    name: "MAILROOM_WEBHOOK_BACKOFF",
    wants: "one to four waits in seconds, separated by commas",
    about: "The waits after the first, second, … failed attempt of a delivery; the last one repeats. Each varies by 20 %.",
    fallback: Backoff.delivery.map((wait) => wait / 1_000).join(","),
    parse: Values.waits
  }),
  apiKey: setting({
    name: "MAILROOM_API_KEY",
    wants: "an API key",
    about: "The key that `conformance` calls a deployment with. `--api-key-file` goes before it; nothing else reads it.",
    fallback: "",
    isSecret: true,
    parse: Values.optional(Values.secret(Values.anyText))
  })
}

export type Config = {
  readonly [K in keyof typeof settings]: (typeof settings)[K] extends Setting<infer A> ? A : never
}
