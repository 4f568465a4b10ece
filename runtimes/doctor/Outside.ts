/** The mail server, Rspamd and the scanner, as far as one can look at them without sending mail. */
import { Duration, Effect, Result } from "effect"
import * as ClamdScanner from "../../adapters/clamd/ClamdScanner.ts"
import * as RspamdSpamFilter from "../../adapters/rspamd/RspamdSpamFilter.ts"
import * as SmtpIntroduction from "../../adapters/smtp/SmtpIntroduction.ts"
import { authority } from "../../core/model/Authority.ts"
import { isDistrust, trustAdvice } from "../Adapters.ts"
import { settings, type Config } from "../Config.ts"
import * as Outbound from "../Outbound.ts"
import type { Voice } from "./Findings.ts"

/** Connects, encrypts, signs in as `worker` does, and leaves. */
export const mail = Effect.fnUntraced(function* (config: Config, says: Voice) {
  if (config.provider !== "smtp") return yield* provider(config, says)
  const options = yield* Effect.result(Outbound.smtpOptions(config))
  if (Result.isFailure(options)) {
    for (const fault of options.failure.faults) yield* says.fail(fault, "Mend the file, or the setting that names it.")
    return
  }
  if (options.success === null) {
    return yield* says.warn("no mail server: production mail waits", `Set ${settings.smtpHost.name}, or leave it, if only the sandbox is used.`)
  }
  const { host, port, tls, auth, ca, dkim } = options.success
  const place = authority(host, port)
  const opened = yield* Effect.result(
    SmtpIntroduction.check({
      host,
      port,
      tls,
      auth,
      ca,
      servername: null,
      ehloName: null,
      connectTimeout: Duration.seconds(10),
      greetingTimeout: Duration.seconds(10),
      socketTimeout: Duration.seconds(10),
      endTimeout: Duration.seconds(10)
    })
  )
  if (Result.isFailure(opened)) {
    const { command, detail } = opened.failure
    return yield* says.fail(
      `${place}: ${command}: ${detail}`,
      command.startsWith("AUTH")
        ? `Mend ${settings.smtpUser.name} and ${settings.smtpPassword.name}.`
        : isDistrust(detail)
          ? trustAdvice(settings.smtpCa.name)
          : `Mend ${settings.smtpHost.name}, ${settings.smtpPort.name} or ${settings.smtpTls.name}, or open the way there.`
    )
  }
  const signing = dkim.length === 0 ? "" : `; keys of ${settings.dkimFile.name} sign for ${[...new Set(dkim.map(({ domain }) => domain))].join(", ")}`
  yield* says.ok(`${place} answers, ${tls === "none" ? "in clear text" : `with TLS (${tls})`}${auth === null ? "" : `, and takes ${auth.user}`}${signing}`)
})

/** A provider is not called: there is nothing to ask it that sends no mail and asks for no further rights. */
const provider = Effect.fnUntraced(function* (config: Config, says: Voice) {
  const adapter = yield* Effect.result(config.provider === "ses" ? Outbound.sesAdapter : Effect.void)
  if (Result.isFailure(adapter)) return yield* says.fail(adapter.failure.message, "Install it beside Mailroom: without it `worker` does not start.")
  yield* says.ok(`production mail goes through ${Outbound.productionPlace(config)}, which signs it`)
  const [isTold, missing] =
    config.provider === "ses"
      ? [config.sesTopics.length > 0, settings.sesTopics.name]
      : [config.postmarkWebhookSecret !== null, settings.postmarkWebhookSecret.name]
  if (!isTold) yield* says.warn("nobody says what becomes of production mail: it stays sent", `Set ${missing}, and have the provider post to \`serve\`.`)
})

/** Shows it no message: one may be learned from, and counts. */
export const rspamd = Effect.fnUntraced(function* ({ inboundRspamd, inboundRspamdPassword }: Config, says: Voice) {
  if (inboundRspamd === null) return
  const { name } = settings.inboundRspamdPassword
  const greeting = yield* Effect.result(RspamdSpamFilter.check({ url: inboundRspamd, password: inboundRspamdPassword }))
  if (Result.isFailure(greeting)) {
    return yield* says.fail(`${inboundRspamd}: ${greeting.failure.reason}: mail comes in unjudged`, `Start Rspamd, open the way to it, or mend ${settings.inboundRspamd.name}.`)
  }
  if (greeting.success === "refused") {
    return inboundRspamdPassword === null
      ? yield* says.fail(`${inboundRspamd} wants a password: mail comes in unjudged`, `Set ${name}, or name its normal worker, which asks for none.`)
      : yield* says.fail(`${inboundRspamd} refuses the password: mail comes in unjudged`, `Mend ${name}.`)
  }
  yield* says.ok(`${inboundRspamd} answers${greeting.success === "taken" && inboundRspamdPassword !== null ? ", and takes the password" : ""}`)
})

/** Asks clamd for more than its pulse: whether it says OK to what it has not seen. */
export const scanner = Effect.fnUntraced(function* ({ mode, scanner, clamd }: Config, says: Voice) {
  if (scanner !== "clamd") {
    if (scanner === null && mode === "production") return
    const message = scanner === "none" ? "attachments are passed unscanned" : "only the EICAR test file is found"
    const advice = `${settings.scanner.name}=clamd scans them.`
    return yield* mode === "production" ? says.warn(message, advice) : says.ok(message)
  }
  const place = "path" in clamd ? clamd.path : authority(clamd.host, clamd.port)
  const report = yield* Effect.result(ClamdScanner.check({ address: clamd, timeout: "20 seconds" }))
  if (Result.isFailure(report)) {
    return yield* says.fail(`clamd at ${place}: ${report.failure.reason}`, `Start clamd, or mend ${settings.clamd.name}; until then attachments wait.`)
  }
  const { version, faults } = report.success
  yield* says.ok(`clamd at ${place} answers: ${version}`)
  for (const fault of faults) {
    const at = fault.lastIndexOf("; ")
    yield* says.warn(fault.slice(0, at), fault.slice(at + 2))
  }
})
