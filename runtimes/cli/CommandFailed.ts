/** How a command ends when it does not succeed: exit codes are part of its contract, like its output. */
import { Data } from "effect"

/**
 * 1: what was looked at is not right. 2: the caller has to change something. 3: the deployment cannot be reached; of
 * management: there is no such thing. 4, of management alone: a conflict (`Operator.exitCodes`).
 */
export type ExitCode = 1 | 2 | 3 | 4

/** The message is one line on standard error; empty: all is said already. */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{
  readonly exitCode: ExitCode
  readonly message: string
}> {}

export const usage = (message: string): CommandFailed => new CommandFailed({ exitCode: 2, message })
