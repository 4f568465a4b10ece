import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import * as Config from "./Config.ts"
import { version } from "./Version.ts"

const faultsOf = (variables: Readonly<Record<string, string>>) =>
  Effect.map(Effect.flip(Config.load(variables)), ({ faults }) => faults)

describe("Config", () => {
  it.effect("has the specification's values by default", () =>
    Effect.gen(function* () {
      const config = yield* Config.load({})

      assert.deepStrictEqual<unknown>(config, {
        mode: "production",
        host: "127.0.0.1",
        port: 3025,
        connectionsMax: 10_000,
        publicUrl: null,
        workerPort: null,
        databaseUrl: null,
        databasePool: 10,
        databasePrepare: true,
        redisUrl: null,
        queue: "postgres",
        blobs: "postgres",
        sealingKeys: [],
        metrics: "token",
        metricsToken: null,
        otlpEndpoint: null,
        otlpHeaders: null,
        data: ".mailroom",
        logLevel: "Info",
        ipRequestsPerMinute: 120,
        trustedProxies: [],
        bounceDomain: null,
        spf: [],
        mxHost: null,
        eventRetentionDays: 30,
        messageRetentionDays: null,
        devDomain: "dev.example",
        provider: "smtp",
        smtpHost: null,
        smtpPort: 587,
        smtpTls: "starttls",
        smtpUser: null,
        smtpPassword: null,
        smtpCa: null,
        dkimFile: null,
        sesRegion: null,
        sesAccessKeyId: null,
        sesSecretAccessKey: null,
        sesConfigurationSet: null,
        sesTopics: [],
        postmarkToken: null,
        postmarkStream: null,
        postmarkServerId: null,
        postmarkWebhookSecret: null,
        inboundHost: "127.0.0.1",
        inboundPort: 2525,
        inboundTlsPort: null,
        inboundLmtp: null,
        inboundHostname: null,
        inboundTlsCert: null,
        inboundTlsKey: null,
        inboundSizeMax: 52_428_800,
        inboundProxies: [],
        inboundPerMinute: 600,
        inboundPostmaster: null,
        inboundDmarc: "refuse",
        inboundRspamd: null,
        inboundRspamdPassword: null,
        inboundHealthPort: null,
        scanner: null,
        clamd: { host: "127.0.0.1", port: 3310 },
        webhookAllowHttp: false,
        webhookAllowedAddresses: [],
        webhookBackoff: [60_000, 600_000, 3_600_000, 21_600_000],
        apiKey: null
      })
    })
  )

  it.effect("reads SPF terms that pass, and nothing else of SPF", () =>
    Effect.gen(function* () {
      const spf = (text: string) => Effect.map(Config.load({ MAILROOM_SPF: text }), (config) => config.spf)
      assert.deepStrictEqual(yield* spf("include:_SPF.example.net  ip4:192.0.2.0/24 ip6:2001:db8::/32"), [
        "include:_spf.example.net",
        "ip4:192.0.2.0/24",
        "ip6:2001:db8::/32"
      ])
      assert.deepStrictEqual(yield* spf("exists:%{i}.spf.example.net,a:mail.example.net mx:example.net"), [
        "exists:%{i}.spf.example.net",
        "a:mail.example.net",
        "mx:example.net"
      ])
      for (const text of ["v=spf1", "-all", "~include:spf.example.net", "include:", "redirect=spf.example.net", "a b", "a:mail.example.net/24", "ip4:192.0.2.0/", "mx:example.net;"]) {
        assert.strictEqual((yield* Effect.flip(spf(text))).faults.length, 1, text)
      }
    })
  )

  for (const [name, text, key, value] of [
    ["MAILROOM_PUBLIC_URL", "http://[::1]:3025/", "publicUrl", "http://[::1]:3025"],
    ["MAILROOM_PUBLIC_URL", "https://mail.example/api/", "publicUrl", "https://mail.example/api"],
    ["MAILROOM_CLAMD", "[::1]:3310", "clamd", { host: "::1", port: 3310 }],
    ["MAILROOM_CLAMD", "clamd.example:3310", "clamd", { host: "clamd.example", port: 3310 }],
    ["MAILROOM_CLAMD", "/run/clamd.sock", "clamd", { path: "/run/clamd.sock" }],
    ["MAILROOM_BLOBS", "./blobs", "blobs", { directory: "./blobs" }],
    ["MAILROOM_TRUSTED_PROXIES", " 10.0.0.0/8 ,, ::1", "trustedProxies", ["10.0.0.0/8", "::1"]]
  ] as const) {
    it.effect(`takes ${name} ${text} for ${JSON.stringify(value)}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual<unknown>((yield* Config.load({ [name]: text }))[key], value)
      })
    )
  }

  it.effect("lets the environment go before a runtime's defaults, and flags before the environment", () =>
    Effect.gen(function* () {
      const defaults = { ipRequestsPerMinute: "6000", port: "1" }
      const flagged = Config.withFlags({ MAILROOM_PORT: "2" }, { data: null, port: 3 })

      assert.strictEqual((yield* Config.load({}, defaults)).port, 1)
      assert.strictEqual((yield* Config.load({ MAILROOM_PORT: "2" }, defaults)).port, 2)
      assert.strictEqual((yield* Config.load(flagged, defaults)).port, 3)
      assert.strictEqual((yield* Config.load(flagged, defaults)).ipRequestsPerMinute, 6000)
    })
  )

  it.effect("names the flag, where a flag is at fault", () =>
    Effect.gen(function* () {
      const flagged = Config.withFlags({ MAILROOM_PORT: "2" }, { data: null, port: 99_999 })

      const { faults } = yield* Effect.flip(Config.load(flagged))

      assert.deepStrictEqual(faults, ['--port is "99999"; it wants a port from 0 to 65535 (0: any free one)'])
    })
  )

  /** They may hold a credential, and are no secret. */
  const unrepeated: ReadonlyArray<string> = [
    "MAILROOM_PUBLIC_URL", "MAILROOM_OTLP_ENDPOINT", "MAILROOM_INBOUND_RSPAMD", "MAILROOM_INBOUND_LMTP", "MAILROOM_CLAMD", "MAILROOM_SMTP_HOST",
    "MAILROOM_METRICS", "MAILROOM_SES_ACCESS_KEY_ID", "MAILROOM_POSTMARK_SERVER_ID", "MAILROOM_POSTMARK_STREAM"
  ]

  const secretNames: ReadonlySet<string> = new Set(Object.values(Config.settings).flatMap(({ isSecret, name }) => (isSecret === true ? [name] : [])))

  for (const [name, good, bad] of [
    ["MAILROOM_MODE", ["development"], ["dev", ""]],
    ["MAILROOM_HOST", ["::1", "0.0.0.0"], ["localhost", "300.1.1.1"]],
    ["MAILROOM_PORT", ["0", "65535"], ["-1", "65536", "80.5", "http"]],
    ["MAILROOM_PROVIDER", ["smtp"], ["sendmail", ""]],
    ["MAILROOM_SES_REGION", ["eu-central-1", "us-gov-west-1", "eusc-de-east-1", ""], ["Frankfurt", "eu-central", "euro-de-east-1", "eu-central-1.evil.example"]],
    ["MAILROOM_SES_TOPICS", ["arn:aws:sns:eu-central-1:123456789012:mail, arn:aws-cn:sns:cn-north-1:123456789012:m.fifo", "arn:aws-eusc:sns:eusc-de-east-1:123456789012:mail", ""], ["mail", "arn:aws:sqs:eu-central-1:123456789012:mail", "arn:aws:sns:eu-central-1:1:mail", "arn:aws:sns:eu-central-1:123456789012:mail/a", "the arn:aws:sns:eu-central-1:123456789012:mail", `arn:aws:sns:eu-central-1:123456789012:${"m".repeat(257)}`]],
    ["MAILROOM_POSTMARK_WEBHOOK_SECRET", ["0123456789abcdef", ""], ["0123456789abcde", "0123456789 abcdef", " 0123456789abcdef"]],
    ["MAILROOM_METRICS_TOKEN", ["0123456789abcdef", ""], ["0123456789abcde", "0123456789 abcdef", " 0123456789abcdef"]],
    ["MAILROOM_POSTMARK_SERVER_ID", ["1234", ""], ["0", "x"]],
    ["MAILROOM_POSTMARK_STREAM", ["outbound", ""], ["a b", "X"]],
    ["MAILROOM_LOG_LEVEL", ["Debug", "debug", "WARN"], ["all", "debugg"]],
    ["MAILROOM_IP_REQUESTS_PER_MINUTE", ["1", "1000000"], ["0", "1000001", "1e9"]],
    ["MAILROOM_INBOUND_PER_MINUTE", ["1", "1000000"], ["0", "1000001"]],
    ["MAILROOM_TRUSTED_PROXIES", ["10.0.0.0/8, ::1", "10.0.0.0/0,10.0.0.1/32,::/0,::1/128", ""], ["10.0.0.0/33", "::1/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/0x8", "proxy", "10.0.0.1/8/8"]],
    ["MAILROOM_BOUNCE_DOMAIN", ["bounces.example", ""], ["bounces", "a b.example", "10.0.0.1"]],
    ["MAILROOM_INBOUND_POSTMASTER", ["ops@mail.example", ""], ["postmaster", "Ops <ops@mail.example>", "ops@localhost"]],
    ["MAILROOM_EVENT_RETENTION_DAYS", ["1", "3650"], ["0", "3651"]],
    ["MAILROOM_MESSAGE_RETENTION_DAYS", ["1", "36500", ""], ["0", "36501", "for good"]],
    ["MAILROOM_DEV_DOMAIN", ["mail.example"], ["mail", ""]],
    ["MAILROOM_SMTP_HOST", ["relay.example", "::1", ""], ["relay.example:25", "a b"]],
    ["MAILROOM_SMTP_PORT", ["25", "465"], ["0", "65536"]],
    ["MAILROOM_SMTP_TLS", ["implicit", "none"], ["tls", ""]],
    ["MAILROOM_PUBLIC_URL", ["https://mail.example", "http://[::1]:3025/", "https://mail.example/api", "https://mail.example/v2/mail.api/", ""], ["mail.example", "https://mail.example/a/../b", "https://mail.example/a//b", "https://mail.example/a b", "https://mail.example/a%2fb", "ftp://mail.example", "https://mail.example?a=b", "https://mail.example/api?a=b", "https://mail.example/api#a", "https://ada@mail.example"]],
    ["MAILROOM_OTLP_ENDPOINT", ["http://otel:4318", "https://otel.example/otlp/", ""], ["otel:4318", "http://ada:love@otel:4318", "http://ada@otel:4318", "http://otel:4318?token=a", "http://otel:4318#a"]],
    ["MAILROOM_INBOUND_RSPAMD", ["http://[::1]:11333", ""], ["rspamd:11333", "http://:love@rspamd:11333", "http://rspamd:11333?token=a"]],
    ["MAILROOM_WORKER_PORT", ["0", ""], ["-1", "65536"]],
    ["MAILROOM_DATABASE_POOL", ["2", "200"], ["1", "201", ""]],
    ["MAILROOM_DATABASE_PREPARE", ["false"], ["no", ""]],
    ["MAILROOM_QUEUE", ["postgres"], ["memory", ""]],
    ["MAILROOM_BLOBS", ["postgres", "./blobs", "../blobs", "/var/lib/mailroom/blobs"], ["blobs", ".blobs", "a/../blobs", "s3://bucket", "/blobs\0", "./blobs\0", ""]],
    ["MAILROOM_SCANNER", ["clamd", "none", "eicar", ""], ["clam", "unscanned"]],
    ["MAILROOM_CLAMD", ["clamd.example:3310", "[::1]:3310", "/run/clamd.sock", "host:1", "host:65535"], ["clamd.example", "::1:3310", "host:0", "host:65536", "host:", "host:25x", "a host:25", "love@host:3310", ""]],
    ["MAILROOM_WEBHOOK_ALLOW_HTTP", ["false"], ["yes", ""]],
    ["MAILROOM_WEBHOOK_ALLOWED_ADDRESSES", [""], ["localhost", "10.0.0.0/64"]],
    ["MAILROOM_WEBHOOK_BACKOFF", ["1", "60, 600,3600,21600"], ["", "1,2,3,4,5", "1.5", "-1"]]
  ] as const) {
    it.effect(`takes good values of ${name}, and names it with what it wants for bad ones`, () =>
      Effect.gen(function* () {
        for (const value of good) yield* Config.load({ [name]: value })
        for (const value of bad) {
          const faults = yield* faultsOf({ [name]: value })
          assert.lengthOf(faults, 1, value)
          const said = secretNames.has(name) || unrepeated.includes(name) || value.includes("@") || value.includes("://") ? "" : `is ${JSON.stringify(value)}; it `
          assert.isTrue(faults[0]!.startsWith(`${name} ${said}wants `), faults[0])
        }
      })
    )
  }

  const clashing: ReadonlyArray<readonly [string, Readonly<Record<string, string>>]> = [
    ["MAILROOM_WEBHOOK_ALLOW_HTTP", { MAILROOM_WEBHOOK_ALLOW_HTTP: "true" }],
    ["MAILROOM_WEBHOOK_ALLOWED_ADDRESSES", { MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "10.0.0.1" }],
    ["MAILROOM_SMTP_USER", { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_USER: "ada" }],
    ["MAILROOM_SMTP_USER", { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_PASSWORD: "x" }],
    ["MAILROOM_SMTP_USER", { MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_PASSWORD: "x" }],
    ["MAILROOM_DKIM_FILE", { MAILROOM_DKIM_FILE: "keys.json" }],
    ["MAILROOM_QUEUE", { MAILROOM_QUEUE: "redis" }],
    ["MAILROOM_OTLP_HEADERS", { MAILROOM_OTLP_HEADERS: "authorization=x" }],
    ["MAILROOM_INBOUND_RSPAMD_PASSWORD", { MAILROOM_INBOUND_RSPAMD_PASSWORD: "x" }],
    ["MAILROOM_SMTP_CA_FILE", { MAILROOM_SMTP_CA_FILE: "ca.pem" }],
    ["MAILROOM_INBOUND_TLS_CERT_FILE", { MAILROOM_INBOUND_TLS_CERT_FILE: "cert.pem" }],
    ["MAILROOM_INBOUND_TLS_CERT_FILE", { MAILROOM_INBOUND_TLS_KEY_FILE: "key.pem" }],
    ["MAILROOM_INBOUND_TLS_PORT", { MAILROOM_INBOUND_TLS_PORT: "465" }],
    [
      "MAILROOM_SMTP_TLS",
      { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_PASSWORD: "x", MAILROOM_SMTP_TLS: "none" }
    ]
  ]
  for (const [named, variables] of clashing) {
    it.effect(`refuses what does not go together: ${Object.keys(variables).join(" with ")}`, () =>
      Effect.gen(function* () {
        const faults = yield* faultsOf(variables)

        assert.lengthOf(faults, 1)
        assert.isTrue(faults[0]!.startsWith(named), faults[0])
      })
    )
  }

  it("wants a database beside Redis, where a runtime counts by itself without", () => {
    const redis = { MAILROOM_REDIS_URL: "redis://redis.example" }
    const faultsIn = (variables: Config.Variables) => Config.read(variables, {}, ["database of redis"]).faults

    assert.deepStrictEqual(faultsIn(redis), ["MAILROOM_REDIS_URL is set, and MAILROOM_DATABASE_URL (or DATABASE_URL) is not"])
    assert.deepStrictEqual([...faultsIn({ ...redis, DATABASE_URL: "postgres://db.example/a" }), ...faultsIn({}), ...Config.read(redis).faults], [])
  })

  it.effect("allows in development what production refuses", () =>
    Effect.gen(function* () {
      const config = yield* Config.load({
        MAILROOM_MODE: "development",
        MAILROOM_WEBHOOK_ALLOW_HTTP: "true",
        MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "127.0.0.0/8, ::1"
      })

      assert.deepStrictEqual([config.webhookAllowHttp, config.webhookAllowedAddresses], [true, ["127.0.0.0/8", "::1"]])
    })
  )

  it.effect("repeats no password, neither in a fault nor when it is printed", () =>
    Effect.gen(function* () {
      const variables = { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_PASSWORD: "lace\0love" }

      assert.deepStrictEqual(yield* faultsOf(variables), ["MAILROOM_SMTP_PASSWORD wants a password, in one line"])
      const config = yield* Config.load({ ...variables, MAILROOM_SMTP_PASSWORD: "lacelove" })
      assert.notInclude(JSON.stringify(config), "lacelove")
    })
  )

  const canary = "CaNaRy/+1"
  const withCredential = [
    `https://ada:${canary}@mail.example:99999/a`,
    `https://ada:7${canary}@mail.example`,
    `redis://:${canary}@redis.example:6379`,
    `ada:${canary}@mail.example:25`,
    `//ada:${canary}@mail.example`,
    `https://mail.example:${canary}`
  ]
  for (const { name, isSecret } of Object.values(Config.settings)) {
    it(`repeats no credential that was put into ${name}`, () => {
        const bare = isSecret === true || unrepeated.includes(name) ? [canary, `ada:${canary}`] : []
        for (const text of [...withCredential, ...bare]) {
          const { faults } = Config.read({ [name]: text })
          assert.notInclude(faults.join("\n"), canary, text)
          for (const fault of faults) assert.include(fault, "MAILROOM_")
        }
    })
  }

  it.effect("names what does not parse and what does not go together at once", () =>
    Effect.gen(function* () {
      const faults = yield* faultsOf({ MAILROOM_PORT: "x", MAILROOM_QUEUE: "redis", MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_TLS: "tls" })

      assert.deepStrictEqual(faults.map((fault) => fault.split(" ", 1).join("")).toSorted(), [
        "MAILROOM_PORT",
        "MAILROOM_QUEUE",
        "MAILROOM_SMTP_TLS",
        "MAILROOM_SMTP_USER", // wants a password
        "MAILROOM_SMTP_USER" // wants a host
      ])
    })
  )

  describe("secrets", () => {
    const key = (fill: number) => Buffer.alloc(32, fill).toString("base64")
    const secrets: ReadonlyArray<readonly [string, string, string]> = [
      ["MAILROOM_DATABASE_URL", "postgres://ada:lovelace@db.example/mailroom", "mysql://ada:lovelace@db.example"],
      ["MAILROOM_REDIS_URL", "rediss://:lovelace@redis.example", "http://lovelace.example"],
      ["MAILROOM_SEALING_KEYS", `2:${key(2)},1:${key(1)}`, `1:lovelace,2:${key(2)}`],
      ["MAILROOM_API_KEY", "svc_live_lovelace", "lovelace\0"]
    ]

    const inFile = (text: string | Buffer) => {
      const folder = mkdtempSync(join(tmpdir(), "mailroom-config-"))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      writeFileSync(join(folder, "secret"), text)
      return join(folder, "secret")
    }

    /** Secrets are equal to each other, whatever they hold, until they are looked into. */
    const revealed = (config: object) => [JSON.stringify(config), ...secretsIn(config)].join(" ")
    const secretsIn = (value: unknown): ReadonlyArray<string> => {
      if (Redacted.isRedacted(value)) return [String(Redacted.value(value))]
      return typeof value === "object" && value !== null ? Object.values(value).flatMap(secretsIn) : []
    }

    for (const [name, good, bad] of secrets) {
      it.effect(`${name} is taken from the environment or from a file, and repeated nowhere`, () =>
        Effect.gen(function* () {
          const direct = yield* Config.load({ [name]: good })

          for (const end of ["", "\n", "\r\n"]) {
            assert.strictEqual(revealed(yield* Config.load({ [`${name}_FILE`]: inFile(good + end) })), revealed(direct))
          }
          assert.notStrictEqual(revealed(direct), revealed(yield* Config.load({})))
          assert.notInclude(JSON.stringify(direct), "lovelace")
          assert.notInclude(JSON.stringify(direct), key(1))
          for (const variables of [{ [name]: bad }, { [`${name}_FILE`]: inFile(bad) }]) {
            const faults = yield* faultsOf(variables)
            assert.lengthOf(faults, 1)
            assert.include(faults[0], name)
            assert.notInclude(faults[0], "lovelace")
          }
        })
      )
    }

    it("are the text of their file without a mark at its beginning, and of UTF-8 alone", () => {
      const read = (content: string | Buffer) => {
        const { config, faults } = Config.read({ MAILROOM_SMTP_HOST: "mail.example", MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_PASSWORD_FILE: inFile(content) })
        return config?.smtpPassword == null ? faults.map((fault) => fault.replace(/: \/.*\/secret/, "")) : [...faults, Redacted.value(config.smtpPassword)]
      }

      assert.deepStrictEqual(read("\ufefflövelace\r\n"), ["lövelace"])
      for (const other of [Buffer.from("lövelace\n", "latin1"), Buffer.from("\ufefflovelace\n", "utf16le")]) {
        assert.deepStrictEqual(read(other), ["MAILROOM_SMTP_PASSWORD_FILE is not in UTF-8"])
      }
      assert.deepStrictEqual(read("lovelace\n\n"), ["the file of MAILROOM_SMTP_PASSWORD_FILE wants a password, in one line"])
    })

    it("and who signs in with them have no end of a line in them, which no server would take", () => {
      const passwords = ["MAILROOM_SMTP_USER", "MAILROOM_SMTP_PASSWORD", "MAILROOM_SES_SECRET_ACCESS_KEY", "MAILROOM_INBOUND_RSPAMD_PASSWORD"]
      for (const name of passwords) {
        for (const end of ["\n", "\r\n"]) {
          assert.isTrue(Config.read({ [name]: `lovelace${end}` }).faults.some((fault) => fault.startsWith(name) && fault.endsWith(", in one line")), name)
        }
      }
    })

    it.effect("are not taken from two places, nor from a file that is not there", () =>
      Effect.gen(function* () {
        const url = "postgres://db.example/mailroom"

        assert.deepStrictEqual(yield* faultsOf({ MAILROOM_DATABASE_URL: url, MAILROOM_DATABASE_URL_FILE: inFile(url) }), [
          "MAILROOM_DATABASE_URL and MAILROOM_DATABASE_URL_FILE are both set; one of them is too many"
        ])
        assert.deepStrictEqual(yield* faultsOf({ MAILROOM_REDIS_URL_FILE: inFile("") + "x" }), [
          "MAILROOM_REDIS_URL_FILE: no such file; it wants the path of a file that is there, and that this user may read"
        ])
      })
    )

    for (const [name] of secrets) {
      it.effect(`${name} is not taken from a file that holds nothing, which is named`, () =>
        Effect.gen(function* () {
          for (const text of ["", "\n", " \r\n\t"]) {
            const file = inFile(text)

            const faults = yield* Effect.flip(Config.load({ [`${name}_FILE`]: file }, {}, ["database", "sealing keys"]))

            assert.include(faults.faults, `${name}_FILE: ${file} holds nothing; it wants a file that holds the secret`)
            assert.isFalse(faults.faults.some((fault) => fault.startsWith(`${name} `)), faults.faults.join("\n"))
          }
        })
      )
    }

    it.effect("may come by a name that hosts set, unless there is one of ours, or it means another kind of database", () =>
      Effect.gen(function* () {
        const [theirs, ours] = ["postgres://theirs.example/a", "postgres://ours.example/b"]
        const urlOf = (variables: Readonly<Record<string, string>>) =>
          Effect.map(Config.load(variables), ({ databaseUrl }) => (databaseUrl === null ? null : Redacted.value(databaseUrl)))

        assert.strictEqual(yield* urlOf({ DATABASE_URL: theirs }), theirs)
        assert.strictEqual(yield* urlOf({ DATABASE_URL: theirs, MAILROOM_DATABASE_URL: ours }), ours)
        assert.strictEqual(yield* urlOf({ DATABASE_URL: theirs, MAILROOM_DATABASE_URL_FILE: inFile(ours) }), ours)
        assert.isNull(yield* urlOf({ DATABASE_URL: "mysql://theirs.example/a" }))
        assert.strictEqual(yield* urlOf({ DATABASE_URL: "postgresql://theirs.example/a" }), "postgresql://theirs.example/a")
        assert.strictEqual(yield* urlOf({ MAILROOM_DATABASE_URL: "postgresql://ours.example/b" }), "postgresql://ours.example/b")
        // One that is empty is as good as not set, also beside another that may stand for it.
        assert.isNull(yield* urlOf({ DATABASE_URL: "" }))
        assert.strictEqual(yield* urlOf({ DATABASE_URL: theirs, MAILROOM_DATABASE_URL: "" }), theirs)
        assert.strictEqual(yield* urlOf({ MAILROOM_DATABASE_URL_FILE: inFile(ours), MAILROOM_DATABASE_URL: "" }), ours)
        assert.strictEqual(yield* urlOf({ MAILROOM_DATABASE_URL_FILE: "", MAILROOM_DATABASE_URL: ours }), ours)
        // One of ours that cannot be read is no other project's: `dev` would work in its folder, and nobody would know why.
        for (const scheme of ["postgres", "postgresql", "POSTGRES"]) {
          const [fault, ...more] = yield* faultsOf({ DATABASE_URL: `${scheme}://ada:love/lace@theirs.example/a` })
          assert.deepStrictEqual(more, [])
          assert.match(fault!, /^DATABASE_URL wants a URL such as .*, the password percent-encoded$/)
        }
      })
    )

    it.effect("seal by a ring of keys, each of its own version and of 32 bytes", () =>
      Effect.gen(function* () {
        const { sealingKeys } = yield* Config.load({ MAILROOM_SEALING_KEYS: `7:${key(7)}\n, 2:${key(2)}` })

        assert.deepStrictEqual(
          sealingKeys.map(({ version, key }) => [version, Redacted.value(key)]),
          [[7, new Uint8Array(32).fill(7)], [2, new Uint8Array(32).fill(2)]]
        )
        const joined = yield* Config.load({ MAILROOM_SEALING_KEYS: `1:${key(1)}12:${key(2)}\n` })
        assert.deepStrictEqual(joined.sealingKeys.map(({ version }) => version), [1, 12], "`sealing generate >>` behind a file without a line end")
        for (const ring of [key(1), `1:${key(1)},1:${key(2)}`, `0:${key(1)}`, `1:${key(1).slice(4)}`, `1:${key(1)};2:${key(2)}`]) {
          assert.lengthOf(yield* faultsOf({ MAILROOM_SEALING_KEYS: ring }), 1, ring)
        }
      })
    )
  })

  describe("of a deployment", () => {
    const needs = ["database", "sealing keys", "scanner"] as const
    const missing = (variables: Readonly<Record<string, string>>) =>
      Config.read(variables, {}, needs).faults.map((fault) => fault.split(" ")[0])

    it("want a database, sealing keys, and a word about attachments", () => {
      assert.deepStrictEqual(missing({}), ["MAILROOM_DATABASE_URL", "MAILROOM_SEALING_KEYS", "MAILROOM_SCANNER"])
    })

    it("are whole with these three, and need none for what runs without them", () => {
      const MAILROOM_SEALING_KEYS = `1:${Buffer.alloc(32).toString("base64")}`

      for (const MAILROOM_SCANNER of ["clamd", "none", "eicar"]) {
        assert.deepStrictEqual(missing({ DATABASE_URL: "postgres://db.example/a", MAILROOM_SEALING_KEYS, MAILROOM_SCANNER }), [])
      }
      assert.deepStrictEqual(Config.read({}).faults, [])
    })

    it("may leave attachments to the test file's finder in development alone", () => {
      assert.notInclude(missing({ MAILROOM_MODE: "development" }), "MAILROOM_SCANNER")
    })
  })

  it("takes what is empty for not set, where there is no default, and for a fault elsewhere", () => {
    for (const { name, fallback } of Object.values(Config.settings)) {
      assert.deepStrictEqual(Config.read({ [name]: "" }).faults.filter((fault) => fault.includes(" wants ")).length, fallback === "" ? 0 : 1, name)
    }
  })

  it("takes what is empty for not set where a runtime has a default of its own", () => {
    const allowed = (text: string) => Config.read({ MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: text }, { mode: "development", webhookAllowedAddresses: "::1" }).config?.webhookAllowedAddresses
    assert.deepStrictEqual([allowed(""), allowed("10.0.0.0/8")], [["::1"], ["10.0.0.0/8"]])
  })

  it.effect("knows all its settings, so that a mistyped one is named, and a file of one that is no secret", () =>
    Effect.gen(function* () {
      for (const name of ["MAILROOM_PROT", "MAILROOM_PORT_FILE"]) {
        assert.deepStrictEqual(yield* faultsOf({ [name]: "1" }), [`${name} is no setting of Mailroom; see docs/configuration.md`])
      }
    })
  )

  it.effect("knows what Kubernetes sets for a Service of this name, and says so once", () =>
    Effect.gen(function* () {
      const links = { HOST: "10.0.0.1", PORT: "3025", PORT_HTTP: "3025" }
      const ports = { "": "tcp://10.0.0.1:3025", _PROTO: "tcp", _PORT: "3025", _ADDR: "10.0.0.1" }
      const variables = Object.fromEntries([
        ["MAILROOM_PORT", "tcp://10.0.0.1:3025"],
        ["MAILROOM_SMTP_PORT", "tcp://10.0.0.2:25"],
        ["MAILROOM_REDIS_PORT", "tcp://10.0.0.3:6379"],
        ...Object.entries(links).map(([name, value]) => [`MAILROOM_SERVICE_${name}`, value]),
        ...Object.entries(ports).map(([name, value]) => [`MAILROOM_PORT_3025_TCP${name}`, value])
      ])

      assert.deepStrictEqual(yield* faultsOf(variables), [
        "MAILROOM_PORT and 9 more are what Kubernetes sets for a Service of such a name; the pod wants `enableServiceLinks: false`"
      ])
    })
  )

  it("tells the version of the package", () => {
    const { version: published } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"))

    assert.strictEqual(version, published)
  })
})
