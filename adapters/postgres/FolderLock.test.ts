import { assert, describe, it, vi } from "@effect/vitest"
import { Effect, Exit, Fiber, Result, Scope } from "effect"
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { Server } from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { createInterface } from "node:readline"
import { Worker } from "node:worker_threads"
import * as FolderLock from "./FolderLock.ts"

const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "mailroom-lock-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

const taking = (folder: string) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    return { scope, outcome: yield* Effect.result(Scope.provide(FolderLock.take(folder), scope)) }
  })

/** A process that takes the folder whenever it is told to, says whether it has it, and gives it back when it is told so. */
const taker = `
  const { Effect, Exit, Result, Scope } = await import("effect")
  const FolderLock = await import(${JSON.stringify(new URL("./FolderLock.ts", import.meta.url).href)})
  const [folder] = process.argv.slice(1)
  const lines = (await import("node:readline")).createInterface({ input: process.stdin })
  let scope = null
  for await (const line of lines) {
    if (line === "take") {
      scope = Scope.makeUnsafe()
      const outcome = await Effect.runPromise(Effect.result(Scope.provide(FolderLock.take(folder), scope)))
      console.log(Result.isSuccess(outcome) ? "taken" : outcome.failure._tag)
    } else {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      console.log("given back")
    }
  }
`

/** A thread that asks for the folder by two copies of the module, one after the other, says what each is told, and keeps what it has. */
const thread = (folder: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const worker = new Worker(
        `(async () => {
           const { Effect, Exit, Result, Scope } = await import("effect")
           const [told, scopes] = [[], []]
           for (const copy of ["", "?copy"]) {
             const FolderLock = await import(${JSON.stringify(new URL("./FolderLock.ts", import.meta.url).href)} + copy)
             const scope = Scope.makeUnsafe()
             const outcome = await Effect.runPromise(Effect.result(Scope.provide(FolderLock.take(${JSON.stringify(folder)}), scope)))
             if (Result.isSuccess(outcome)) scopes.push(scope)
             else await Effect.runPromise(Scope.close(scope, Exit.void))
             told.push(Result.isSuccess(outcome) ? "taken" : outcome.failure.message)
           }
           const { parentPort } = require("node:worker_threads")
           parentPort.on("message", () => scopes).postMessage(told)
         })()`,
        { eval: true }
      )
      const [told] = await once(worker, "message")
      return { worker, told: told as ReadonlyArray<string> }
    }),
    ({ worker }) => Effect.promise(() => worker.terminate())
  )

/** A file system that takes no sockets, or none that all may use. */
const withoutSockets = (fault: "emitted" | "thrown") =>
  Effect.acquireRelease(
    Effect.sync(() =>
      vi.spyOn(Server.prototype, "listen").mockImplementation(function (this: Server) {
        if (fault === "thrown") throw new Error("uv_pipe_chmod EPERM")
        queueMicrotask(() => this.emit("error", new Error("listen EPERM")))
        return this
      })
    ),
    (listen) => Effect.sync(() => listen.mockRestore())
  )

const ownNamespace = () => /\d+/.exec(fs.readlinkSync("/proc/self/ns/pid"))![0]

describe("a folder's lock", () => {
  it.live("is one's of those in a process who ask for it at once, and stays so until that one has given it back", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const texts = new Set<string>()
      for (let round = 0; round < 20; round++) {
        const all = yield* Effect.forEach([1, 2, 3], () => taking(folder), { concurrency: "unbounded" })

        const refused = all.flatMap(({ outcome }) => (Result.isFailure(outcome) ? [outcome.failure._tag] : []))
        assert.deepStrictEqual(refused, ["FolderInUse", "FolderInUse"])
        const [lock, socket, ...more] = fs.readdirSync(folder).sort()
        assert.deepStrictEqual([lock, socket?.replace(/\.\d+\.\d+\.[0-9a-f]{16}\./, ".N.N.T."), more], ["lock", "lock.N.N.T.socket", []])

        // Who asks while it is being given back has it whole, or not at all.
        const closing = yield* Effect.forkChild(Effect.forEach(all, ({ scope }) => Scope.close(scope, Exit.void)))
        let heir = yield* taking(folder)
        while (Result.isFailure(heir.outcome)) {
          assert.strictEqual(heir.outcome.failure._tag, "FolderInUse")
          yield* Scope.close(heir.scope, Exit.void)
          heir = yield* taking(folder)
        }
        texts.add(fs.readFileSync(path.join(folder, "lock"), "utf8"))
        assert.match([...texts].at(-1)!, /^\d+ \S+ \d+ [0-9a-f]{16}$/)
        assert.lengthOf(fs.readdirSync(folder), 2)
        yield* Fiber.join(closing)
        yield* Scope.close(heir.scope, Exit.void)
        assert.deepStrictEqual(fs.readdirSync(folder), [])
      }
      assert.strictEqual(texts.size, 20, "who has it says so in other words each time")
    }).pipe(Effect.scoped)
  )

  it.live("that a dead process has left is one's of the processes who find it at once", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const takers = Array.from({ length: 4 }, () => {
        const child: ChildProcess = spawn(process.execPath, ["--input-type=module", "--eval", taker, folder], { stdio: ["pipe", "pipe", "inherit"] })
        return { child, lines: createInterface({ input: child.stdout! })[Symbol.asyncIterator]() }
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => takers.forEach(({ child }) => child.kill("SIGKILL"))))
      const tell = (word: string) =>
        Effect.promise(() =>
          Promise.all(
            takers.map(({ child, lines }) => {
              child.stdin!.write(`${word}\n`)
              return lines.next().then(({ value }) => String(value))
            })
          )
        )
      yield* tell("take") // once they run
      yield* tell("give back")

      for (let round = 0; round < 40; round++) {
        for (const [name, text] of [["lock", `${999_000_000 + round} gone/1`], ["lock.0123456789abcdef", "999999999 gone/1 1"], ["lock.1.1.00000000", "999999999"]] as const) {
          fs.writeFileSync(path.join(folder, name), text)
        }
        const told = yield* tell("take")
        assert.deepStrictEqual(told.toSorted(), ["FolderInUse", "FolderInUse", "FolderInUse", "taken"], `round ${round}`)
        assert.strictEqual(fs.readdirSync(folder).filter((name) => !name.endsWith(".socket")).join(), "lock")
        yield* tell("give back")
        assert.deepStrictEqual(fs.readdirSync(folder), [])
      }
    }).pipe(Effect.scoped),
    60_000
  )

  it.live("may be read by all, and one that may not be is somebody's", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const held = yield* taking(folder)
      assert.strictEqual(fs.statSync(path.join(folder, "lock")).mode & 0o777, 0o644)
      yield* Scope.close(held.scope, Exit.void)
      fs.mkdirSync(path.join(folder, "lock")) // as good as a file that this user may not read, for root may read all

      const { outcome, scope } = yield* taking(folder)

      assert.isTrue(Result.isFailure(outcome) && outcome.failure._tag === "FolderUnusable")
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(fs.readdirSync(folder), ["lock"])
    }).pipe(Effect.scoped)
  )

  for (const fault of ["emitted", "thrown"] as const) {
    it.live(`has its process's number alone where the folder takes no socket, and is judged by that (its fault is ${fault})`, () =>
      Effect.gen(function* () {
        const folder = yield* temporary
        yield* withoutSockets(fault)

        yield* FolderLock.take(folder)

        const text = fs.readFileSync(path.join(folder, "lock"), "utf8")
        assert.match(text, new RegExp(`^${process.pid} \\S+ - [0-9a-f]{16}$`))
        const { told } = yield* thread(folder)
        assert.lengthOf(told.filter((one) => one.includes("is in use by this process already")), 2, told.join())
        assert.strictEqual(fs.readFileSync(path.join(folder, "lock"), "utf8"), text)
        assert.deepStrictEqual(fs.readdirSync(folder), ["lock"])
      }).pipe(Effect.scoped)
    )
  }

  it.live("is one's of the threads of a process, and of the copies of this module, until that one has ended", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const inUse = `the database folder ${folder} is in use by this process already; close it there, or choose another folder`
      const here = yield* taking(folder)
      const before = fs.readdirSync(folder).sort()
      assert.deepStrictEqual((yield* thread(folder)).told, [inUse, inUse])
      assert.deepStrictEqual(fs.readdirSync(folder).sort(), before)
      yield* Scope.close(here.scope, Exit.void)

      const { worker, told } = yield* thread(folder)
      assert.deepStrictEqual(told, ["taken", inUse])
      const refused = yield* taking(folder)
      assert.isTrue(Result.isFailure(refused.outcome) && refused.outcome.failure.message === inUse)
      yield* Scope.close(refused.scope, Exit.void)

      yield* Effect.promise(() => worker.terminate())
      assert.isTrue(fs.existsSync(path.join(folder, "lock")), "a thread that is ended leaves its lock")
      const heir = yield* taking(folder)
      assert.isTrue(Result.isSuccess(heir.outcome))
      assert.lengthOf(fs.readdirSync(folder), 2)
      yield* Scope.close(heir.scope, Exit.void)
      assert.deepStrictEqual(fs.readdirSync(folder), [])
    }).pipe(Effect.scoped)
  )

  it.live("removes the socket of the one that it was taken from, and those of processes that are gone", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const namespace = ownNamespace()
      const [replaced, gone, earlier] = ["lock.7.1.abc.socket", `lock.999999999.${namespace}.abc.socket`, `lock.999999999.${namespace}.socket`]
      // Each may be of one that is about to listen.
      const [ours, living, elsewhere] = [`lock.${process.pid}.${namespace}.abc.socket`, `lock.${process.ppid}.${namespace}.abc.socket`, "lock.999999999.1.abc.socket"]
      for (const name of [replaced, gone, earlier, ours, living, elsewhere]) fs.writeFileSync(path.join(folder, name), "")
      fs.writeFileSync(path.join(folder, "lock"), "7 gone/1 1 abc")

      yield* Effect.scoped(FolderLock.take(folder))

      assert.deepStrictEqual(fs.readdirSync(folder).sort(), [ours, living, elsewhere].sort())
    }).pipe(Effect.scoped)
  )

  it.live("that is a symbolic link to nothing is said to be that", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      fs.symlinkSync("nowhere", path.join(folder, "lock"))

      const { outcome, scope } = yield* taking(folder)

      assert.isTrue(Result.isFailure(outcome) && outcome.failure._tag === "FolderUnusable")
      assert.include(Result.isFailure(outcome) ? outcome.failure.message : "", `${folder}/lock can be neither made nor read, as a symbolic link that leads nowhere; remove it`)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(fs.readdirSync(folder), ["lock"])
    }).pipe(Effect.scoped)
  )
})
