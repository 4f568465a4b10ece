/** The mail server of `reference/sink.ts` as a process, beside the one who measures. */
import { fork } from "node:child_process"

export interface Sink {
  readonly pid: number
  /** Messages since the last time that this was asked. */
  readonly counted: () => Promise<number>
  /** Settings by which the product hands production mail to it. */
  readonly variables: Readonly<Record<string, string>>
  readonly stop: () => void
}

/** `delayMs`: how long it thinks about each message. */
export const start = async (delayMs = 0): Promise<Sink> => {
  const child = fork(`${import.meta.dirname}/reference/sink.ts`, ["--delay-ms", String(delayMs)])
  const said = () => new Promise<unknown>((resolve) => child.once("message", resolve))
  const port = await said()
  return {
    pid: child.pid!, // it spoke
    counted: async () => {
      const answer = said()
      child.send("count")
      return ((await answer) as { readonly messages: number }).messages // what it sends
    },
    variables: variablesFor(Number(port)),
    stop: () => void child.kill()
  }
}

export const variablesFor = (port: number): Readonly<Record<string, string>> => ({
  MAILROOM_SMTP_HOST: "127.0.0.1",
  MAILROOM_SMTP_PORT: String(port),
  MAILROOM_SMTP_TLS: "none"
})
