/** What authors get wrong about messages that are not taken: each flaw is put into a provider that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { counted } from "../adapters/memory/CountedMailProvider.ts"
import * as MemoryMailProvider from "../adapters/memory/MemoryMailProvider.ts"
import { SubmissionRefused, type MailProvider } from "../core/ports/MailProvider.ts"
import { suite } from "./MailProvider.ts"
import { conforms, prove } from "./Proof.ts"

const refusedWith = (smtpCode: number) => new SubmissionRefused({ reply: { smtpCode, enhancedCode: null, text: null } })

const flaws: ReadonlyArray<readonly [flaw: string, law: string, make: (provider: MailProvider) => MailProvider["submit"]]> = [
  [
    "a refusal that is taken for a deferral",
    "reports a message that is refused for good as permanent, after one call",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "SubmissionRefused", () => Effect.fail(refusedWith(450)))
  ],
  [
    "a 451 that is taken for a refusal",
    "reports a message that is deferred as transient, after one call",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "SubmissionRefused", () => Effect.fail(refusedWith(551)))
  ],
  [
    "a lost answer that is taken for a refusal",
    "does not know what became of a message that gets no answer, and does not submit it again",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "MailProviderUnavailable", () => Effect.fail(refusedWith(550)))
  ],
  [
    "a provider that tries again by itself",
    "does not know what became of a message that gets no answer, and does not submit it again",
    ({ submit }) => (request) => Effect.retry(submit(request), { times: 1 })
  ],
  [
    "a call that goes on when nobody waits for it",
    "ends at once when it is interrupted while it waits for an answer, and hangs up",
    ({ submit }) => (request) => Effect.flatMap(Effect.promise(() => Effect.runPromise(Effect.result(submit(request)))), Effect.fromResult)
  ]
]

class Subject extends Context.Service<Subject, ReturnType<typeof counted> & { readonly flawed: MailProvider }>()("test/Subject") {}

const subject = (make: (provider: MailProvider) => MailProvider["submit"]) =>
  Layer.sync(Subject, () => {
    const right = counted(MemoryMailProvider.make("memory"))
    return { ...right, flawed: { ...right.provider, submit: make(right.provider) } }
  })

const held = suite({
  provider: Subject.useSync(({ flawed }) => flawed),
  server: {
    next: (ending) => Subject.use(({ server }) => server.next(ending)),
    calls: Subject.use(({ server }) => server.calls),
    waiting: Subject.use(({ server }) => server.waiting)
  }
})

describe("the suite of MailProvider", () => {
  for (const [flaw, law, make] of flaws) {
    it.live(`refuses ${flaw}`, () =>
      Effect.gen(function* () {
        const { checks } = yield* prove([conforms("flawed", held, subject(make))], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }
})
