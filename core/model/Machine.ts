/**
 * A state machine is a literal table: state → input → transition. Every state
 * of a machine has a row, and an end state's row is empty. What the table does
 * not hold is illegal, and an illegal input changes nothing.
 *
 * Guards stay outside: a caller picks the input's name first, then looks it up.
 */
import { Data, Result } from "effect"

/** Where an input leads, and the canonical event that the move emits, if any. */
export interface Transition<State extends string, Emits extends string> {
  readonly to: State
  readonly emits?: Emits
}

/** A whole machine: one row per state, one optional cell per input. */
export type Table<State extends string, Input extends string, Emits extends string = never> = {
  readonly [S in State]: { readonly [I in Input]?: Transition<State, Emits> }
}

/** The table has no cell for this input in this state. */
export class IllegalTransition extends Data.TaggedError("IllegalTransition")<{
  readonly machine: string
  readonly state: string
  readonly input: string
}> {
  override get message(): string {
    return `${this.machine}: ${this.state} takes no ${this.input}`
  }
}

/** Looks one cell up. */
export const next = <State extends string, Input extends string, Emits extends string>(
  machine: string,
  table: Table<State, Input, Emits>,
  state: State,
  input: Input
): Result.Result<Transition<State, Emits>, IllegalTransition> => {
  const row = table[state]
  const cell = Object.hasOwn(row, input) ? row[input] : undefined
  return cell === undefined
    ? Result.fail(new IllegalTransition({ machine, state, input }))
    : Result.succeed(cell)
}

/** The machine as a Mermaid state diagram; states that no input leaves are drawn as ends. */
export const mermaid = (table: Table<string, string, string>, initial: string): string => {
  const lines = ["stateDiagram-v2", `  [*] --> ${initial}`]
  for (const [state, row] of Object.entries(table)) {
    const cells = Object.entries(row)
    for (const [input, cell] of cells) {
      if (cell === undefined) continue
      lines.push(`  ${state} --> ${cell.to}: ${input}${cell.emits === undefined ? "" : ` / ${cell.emits}`}`)
    }
    if (cells.length === 0) lines.push(`  ${state} --> [*]`)
  }
  return lines.join("\n")
}
