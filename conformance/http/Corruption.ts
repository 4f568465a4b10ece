/**
 * A deployment that is broken in one way: what the suite has to notice, and
 * with which law. For tests of the suite itself; a corruption stands between
 * the suite and a deployment that is sound.
 */

/** An answer on its way: a corruption may change it, or give another. */
export interface Answer {
  readonly method: string
  /** Without the origin. */
  readonly path: string
  readonly request: { readonly headers: Readonly<Record<string, string>>; readonly body: string }
  readonly status: number
  readonly headers: Headers
  /** The body, parsed; a corruption may change it in place. */
  // oxlint-disable-next-line typescript/no-explicit-any -- it is changed member by member, and has no one shape
  readonly json: any
}

interface Changed {
  readonly status?: number
  readonly json?: unknown
  readonly text?: string
}

export interface Corruption {
  /** "notices …". */
  readonly name: string
  /** The checks that notice it. */
  readonly filter: ReadonlyArray<string>
  /** Checks that run before them, for those that judge what others were answered. */
  readonly beside: ReadonlyArray<string>
  /** Made anew for each run. */
  readonly fetch: () => (answer: Answer) => Changed | void
  /** Law, title and reason of every check of the filter that fails. */
  readonly breaks: RegExp
}

/** A fetch whose answers are corrupted on the way. */
export const mutated = (make: Corruption["fetch"]): typeof globalThis.fetch => {
  const corrupt = make()
  return async (input, init) => {
    const response = await fetch(input, init)
    const text = await response.text()
    const url = new URL(input instanceof Request ? input.url : input)
    const headers = new Headers(response.headers)
    let json: unknown
    try {
      json = JSON.parse(text)
    } catch {
      json = undefined
    }
    const { status } = response
    const request = {
      headers: Object.fromEntries(new Headers(init?.headers)),
      body: typeof init?.body === "string" ? init.body : ""
    }
    const changed = corrupt({
      method: init?.method ?? "GET",
      path: `${url.pathname}${url.search}`,
      request,
      status,
      headers,
      json
    }) ?? {}
    const body = changed.text ?? (json === undefined ? text : JSON.stringify(changed.json ?? json))
    return new Response(body, { status: changed.status ?? status, headers })
  }
}

/** With a state of its own in each run. */
export const stateful = (
  name: string,
  filter: string | ReadonlyArray<string>,
  breaks: RegExp,
  fetch: Corruption["fetch"]
): Corruption => ({
  name,
  filter: typeof filter === "string" ? [filter] : filter,
  beside: [],
  breaks,
  fetch
})

/** Noticed by checks that meet it themselves. */
export const corruption = (
  name: string,
  filter: string | ReadonlyArray<string>,
  breaks: RegExp,
  fetch: (answer: Answer) => Changed | void
) => stateful(name, filter, breaks, () => fetch)

/** Noticed by a check that judges all that was answered before. */
export const inTheRun = (
  name: string,
  beside: string,
  filter: string,
  breaks: RegExp,
  fetch: (answer: Answer) => Changed | void
): Corruption => ({
  ...corruption(name, filter, breaks, fetch),
  beside: [beside]
})

/** Of successful reads at a path. */
export const gets = (path: RegExp, change: (answer: Answer) => Changed | void) => (answer: Answer) =>
  answer.method === "GET" && path.test(answer.path) && answer.status === 200 ? change(answer) : undefined
