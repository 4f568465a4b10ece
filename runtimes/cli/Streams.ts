/**
 * Standard input line by line, and standard output, for the commands that are
 * part of a pipe. A line is bounded, whatever comes in; a reader that goes
 * away ends the command, without a word.
 */
import { Data, Effect, Stdio, Stream } from "effect"
import { fstatSync, writeSync } from "node:fs"
import { CommandFailed, usage } from "./CommandFailed.ts"

export interface Line {
  /** Without its end; its beginning, if it is cut. What is not UTF-8 has U+FFFD in its place. */
  readonly text: string
  readonly isCut: boolean
  readonly isUtf8: boolean
}

/** Nobody reads standard output any more. */
export class OutputClosed extends Data.TaggedError("OutputClosed")<{}> {}

/** Writes text, and waits until all of it is taken. */
export const print = (text: string): Effect.Effect<void, OutputClosed | CommandFailed> =>
  Effect.suspend(() => (fstatSync(process.stdout.fd).isFile() ? intoFile(text) : intoStream(text)))

const intoStream = (text: string) =>
  Effect.callback<void, OutputClosed | CommandFailed>((resume) => {
    process.stdout.write(text, (error) => resume(error == null ? Effect.void : Effect.fail(unwritten(error))))
  })

/** A disk that is getting full takes the beginning, and says how much: Node's stream over a file does not look, and goes on as if it were all. */
const intoFile = (text: string) =>
  Effect.try({
    try: () => {
      for (let rest = Buffer.from(text); rest.length > 0; ) rest = rest.subarray(writeSync(process.stdout.fd, rest))
    },
    catch: (error) => unwritten(error as Error) // node:fs throws errors
  })

const unwritten = (error: Error): OutputClosed | CommandFailed =>
  "code" in error && (error.code === "EPIPE" || error.code === "ERR_STREAM_DESTROYED")
    ? new OutputClosed()
    : new CommandFailed({ exitCode: 1, message: `standard output cannot be written: ${error.message}` })

/** Ends quietly once nobody reads. */
export const untilClosed = <A, E, R>(self: Effect.Effect<A, E | OutputClosed, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | OutputClosed, OutputClosed> => error instanceof OutputClosed,
    () => Effect.void
  )

/** Help, a version and completions are printed by what waits for nothing: fails if some of it could not be written. */
export const allTaken: Effect.Effect<void, CommandFailed> = untilClosed(
  Effect.callback((resume) => {
    process.stdout.write("", () => {
      const { errored } = process.stdout
      resume(errored === null ? Effect.void : Effect.fail(unwritten(errored)))
    })
  })
)

/** Hands on the lines of standard input, all that have arrived at a time. Ends are LF or CR LF; the last line may lack one. */
export const eachLines = <E, R>(
  bytesMax: number,
  use: (lines: ReadonlyArray<Line>) => Effect.Effect<void, E, R>
): Effect.Effect<void, E | CommandFailed, R | Stdio.Stdio> =>
  Effect.gen(function* () {
    const { stdin } = yield* Stdio.Stdio
    const splitter = new Splitter(bytesMax)
    const chunks = Stream.mapError(stdin, unreadable)
    yield* Stream.runForEach(chunks, (chunk) => use(splitter.push(chunk)))
    yield* use(splitter.end())
  })

/** All of standard input, or a usage fault if there is more than that. */
export const readAll = (bytesMax: number): Effect.Effect<Line, CommandFailed, Stdio.Stdio> =>
  Effect.gen(function* () {
    const { stdin } = yield* Stdio.Stdio
    const chunks: Array<Uint8Array> = []
    let size = 0
    yield* Stream.runForEach(Stream.mapError(stdin, unreadable), (chunk) => {
      size += chunk.length
      if (size > bytesMax) return Effect.fail(usage(`standard input has more than ${bytesMax} bytes`))
      chunks.push(chunk)
      return Effect.void
    })
    return lineOf(Buffer.concat(chunks), false, true)
  })

const unreadable = () => usage("standard input cannot be read")

const lf = 0x0a
const cr = 0x0d

/** Cuts bytes into lines, and keeps no more of a line than it may have. */
export class Splitter {
  readonly #bytesMax: number
  #parts: Array<Uint8Array> = []
  #size = 0
  #isCut = false
  #isFirst = true

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  push(chunk: Uint8Array): ReadonlyArray<Line> {
    const lines: Array<Line> = []
    let start = 0
    for (let end = chunk.indexOf(lf); end >= 0; end = chunk.indexOf(lf, start)) {
      this.#keep(chunk.subarray(start, end))
      lines.push(this.#take())
      start = end + 1
    }
    this.#keep(chunk.subarray(start))
    return lines
  }

  /** What stands behind the last end of a line. */
  end(): ReadonlyArray<Line> {
    return this.#size === 0 ? [] : [this.#take()]
  }

  /** One byte more than a line may have: it may be the CR of its end. */
  #keep(part: Uint8Array): void {
    const kept = part.subarray(0, this.#bytesMax + 1 - this.#size)
    this.#isCut ||= kept.length < part.length
    if (kept.length === 0) return
    this.#parts.push(kept)
    this.#size += kept.length
  }

  #take(): Line {
    const kept = Buffer.concat(this.#parts)
    const bytes = kept.at(-1) === cr && !this.#isCut ? kept.subarray(0, -1) : kept
    const isCut = this.#isCut || bytes.length > this.#bytesMax
    const line = lineOf(bytes.subarray(0, this.#bytesMax), isCut, this.#isFirst)
    this.#parts = []
    this.#size = 0
    this.#isCut = false
    this.#isFirst = false
    return line
  }
}

/** A mark at the very beginning says that it is UTF-8, and belongs to no line. */
const lineOf = (bytes: Uint8Array, isCut: boolean, isFirst: boolean): Line => {
  const ignoreBOM = !isFirst
  const decoded = (fatal: boolean) => new TextDecoder("utf-8", { fatal, ignoreBOM }).decode(bytes)
  try {
    return { text: decoded(true), isCut, isUtf8: true }
  } catch {
    return { text: decoded(false), isCut, isUtf8: false }
  }
}
