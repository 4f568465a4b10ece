/**
 * What is said before a message is: the greeting, EHLO, STARTTLS, signing in.
 * Whatever the server says here answers us, and no message. Nothing but EHLO
 * and STARTTLS is said before the encryption where there is to be one, and
 * nothing that was offered before it counts after it.
 */
import { Effect, Redacted } from "effect"
import { createHmac } from "node:crypto"
import { isIPv4 } from "node:net"
import { hostname } from "node:os"
import type { SecureContext } from "node:tls"
import { failed, type SmtpFailed } from "./SmtpAnswer.ts"
import type { Said } from "./SmtpReplies.ts"
import { shown, type Settings } from "./SmtpSettings.ts"
import { SmtpWire, trust, type Owner } from "./SmtpWire.ts"

/** What the server offers. */
export interface Extensions {
  readonly isPipelining: boolean
  readonly takesEightBit: boolean
  readonly announcesSize: boolean
  /** Null if the server does not say how much it takes. */
  readonly sizeBytesMax: number | null
}

/**
 * Connects; `onReady` once it may carry messages. Who ends it before that hears of it as of any end.
 *
 *     greeting   220   EHLO                                                       RFC 5321, 3.1
 *     EHLO       250   STARTTLS, where there is to be encryption and is none;
 *                      else AUTH, where there are credentials; else it is ready   RFC 5321, 3.2
 *                5yz   HELO, where there is to be neither                         RFC 5321, 3.2
 *     HELO       250   it is ready
 *     STARTTLS   220   the handshake, and EHLO anew                               RFC 3207, 4 and 4.2
 *     AUTH       334   the next answer, if the method has another                 RFC 4954, 4
 *                235   it is ready
 *
 * Any other reply ends the connection, and so does a server that does not offer what is wanted.
 */
export const introduce = (
  settings: Settings,
  context: () => SecureContext,
  owner: Owner,
  onReady: (extensions: Extensions) => void
): SmtpWire => {
  const refused = (command: string, { text }: Said) =>
    wire.end(failed(command, shown(text, settings)))

  const greet = (said: Said) => (said.code === 220 ? hello() : refused("CONN", said))

  const hello = (): void =>
    wire.ask("EHLO", `EHLO ${nameOf(settings)}\r\n`, (said) => {
      if (said.code === 250) return greeted(offersOf(said))
      const needsNothing = settings.tls === "none" && settings.auth === null
      return said.code >= 500 && needsNothing ? helloOfOld() : refused("EHLO", said)
    })

  const helloOfOld = () =>
    wire.ask("HELO", `HELO ${nameOf(settings)}\r\n`, (said) => (said.code === 250 ? ready(new Map()) : refused("HELO", said)))

  const greeted = (offers: Offers): void => {
    if (settings.tls !== "none" && !wire.isEncrypted()) return startTls(offers)
    return settings.auth === null ? ready(offers) : signIn(settings.auth, offers)
  }

  const startTls = (offers: Offers): void => {
    if (!offers.has("STARTTLS")) return wire.end(failed("STARTTLS", "the server does not offer to encrypt"))
    return wire.ask("STARTTLS", "STARTTLS\r\n", (said) => (said.code === 220 ? wire.encrypt(hello) : refused("STARTTLS", said)))
  }

  const signIn = ({ user, password }: NonNullable<Settings["auth"]>, offers: Offers): void => {
    const methods = (offers.get("AUTH") ?? "").toUpperCase().split(" ")
    const method = (["PLAIN", "LOGIN", "CRAM-MD5"] as const).find((known) => methods.includes(known))
    if (!wire.isEncrypted() || method === undefined) return wire.end(failed("AUTH", "the server takes no credentials"))
    const command = `AUTH ${method}`
    const end = (said: Said) => (said.code === 235 ? ready(offers) : refused(command, said))
    /** What is said to each 334 in turn. */
    const go = (words: string, ...more: ReadonlyArray<(challenge: string) => string>): void =>
      wire.ask(command, `${words}\r\n`, (said) => {
        const [answer, ...rest] = more
        return said.code === 334 && answer !== undefined ? go(answer(said.text.slice(4)), ...rest) : end(said)
      })
    const secret = Redacted.value(password)
    const proof = (challenge: string) => createHmac("md5", secret).update(Buffer.from(challenge, "base64")).digest("hex")
    if (method === "PLAIN") return go(`${command} ${base64(`\0${user}\0${secret}`)}`)
    if (method === "LOGIN") return go(command, () => base64(user), () => base64(secret))
    return go(command, (challenge) => base64(`${user} ${proof(challenge)}`))
  }

  const ready = (offers: Offers) => {
    const size = Number(offers.get("SIZE"))
    const extensions = {
      isPipelining: offers.has("PIPELINING"),
      takesEightBit: offers.has("8BITMIME"),
      announcesSize: offers.has("SIZE"),
      // 0 and nothing say that there is no bound.
      sizeBytesMax: Number.isSafeInteger(size) && size > 0 ? size : null
    }
    // What else the server says now is no reply to a message.
    wire.whenQuiet(() => onReady(extensions))
  }

  const wire = new SmtpWire(settings, context, owner, greet)
  return wire
}

/** Connects, encrypts and signs in as for a message, and leaves. Ends within the time to connect. */
export const check = (settings: Settings): Effect.Effect<void, SmtpFailed> =>
  Effect.callback<void, SmtpFailed>((resume) => {
    const owner: Owner = { onEnd: (why) => resume(Effect.fail(why)), onHeard: () => undefined, onUnasked: () => false }
    try {
      const wire = introduce(settings, trust(settings), owner, () => {
        wire.quit()
        resume(Effect.void)
      })
      return Effect.sync(() => wire.end(failed("CONN", "nobody waits for it")))
    } catch (error) {
      // Certificates that cannot be used.
      return resume(Effect.fail(failed("CONN", String(error))))
    }
  }).pipe(
    Effect.timeoutOrElse({
      duration: settings.connectTimeout,
      orElse: () => Effect.fail(failed("CONN", "not connected and signed in within the time"))
    })
  )

/** The server's words by their keyword; `AUTH=PLAIN` is how some wrote it before there was a standard. */
type Offers = ReadonlyMap<string, string>

const offersOf = ({ text }: Said): Offers =>
  new Map(
    text
      .split("\r\n")
      .slice(1)
      .map((line) => /^\d{3}[ -]([A-Za-z0-9-]*)[ =]?(.*)$/.exec(line) ?? [])
      .map(([, keyword = "", rest = ""]) => [keyword.toUpperCase(), rest.trim()])
  )

const base64 = (text: string) => Buffer.from(text).toString("base64")

const nameOf = ({ ehloName }: Settings): string => {
  if (ehloName !== null) return ehloName
  const own = hostname()
  if (!/^[A-Za-z0-9.-]{1,253}$/.test(own) || !own.includes(".")) return "[127.0.0.1]"
  return isIPv4(own) ? `[${own}]` : own
}
