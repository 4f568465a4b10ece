import { afterAll, assert, beforeAll, describe, it, layer, vi } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Result, Scope } from "effect"
import { PGlite } from "@electric-sql/pglite"
import { PgConnection } from "@effect/sql-pg"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { createInterface } from "node:readline"
import { inspect } from "node:util"
import { Database, onLiveClock } from "./Database.ts"
import * as FolderLock from "./FolderLock.ts"
import { migrate, migrations } from "./Migrations.ts"
import * as Pglite from "./Pglite.ts"

const temporary: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "mailroom-pglite-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

/** A folder with a cluster in it, copied from one that is made once. */
const used = Effect.tap(temporary, (directory) => Effect.promise(async () => fs.cpSync(await prepared, directory, { recursive: true })))
let prepared: Promise<string>

const opened = (directory: string) => Effect.map(Layer.build(Layer.fresh(Pglite.layer({ directory }))), (context) => Context.get(context, Database))

/** A process that commits one number after another, and says so after each. */
const committer = `
  const { Effect, Layer } = await import("effect")
  const { Database } = await import(${JSON.stringify(new URL("./Database.ts", import.meta.url).href)})
  const Pglite = await import(${JSON.stringify(new URL("./Pglite.ts", import.meta.url).href)})
  await Effect.runPromise(Effect.provide(Effect.gen(function* () {
    const { sql } = yield* Database
    yield* sql\`create table if not exists public.done (number integer primary key, filler text)\`
    const [last] = yield* sql\`select coalesce(max(number), 0)::integer as number from public.done\`
    for (let number = last.number + 1; ; number++) {
      yield* sql.withTransaction(Effect.andThen(
        sql\`insert into public.done values (\${number}, repeat('x', 2000))\`,
        sql\`update public.done set filler = repeat('y', 2000) where number = \${number - 1}\`
      ))
      process.stdout.write(number + "\\n")
      yield* Effect.yieldNow
    }
  }), Pglite.layer({ directory: process.argv[1] })))`

/** Lets it commit that often, and kills it; the last number that it said. */
const killedAfter = (directory: string, commits: number) =>
  Effect.callback<number>((resume) => {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", committer, directory], { stdio: ["ignore", "pipe", "inherit"] })
    let said = 0
    let count = 0
    createInterface(child.stdout).on("line", (line) => {
      said = Number(line)
      if (++count === commits) child.kill("SIGKILL")
    })
    child.once("close", () => resume(Effect.succeed(said)))
  })

layer(Pglite.layerMemory, { timeout: "120 seconds" })("PGlite in memory", (it) => {
  it.effect("takes the migrations", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* migrate, { applied: migrations.map(({ name }) => name) })
    })
  )

  it.effect("serves many at once, whose transactions take turns", () =>
    Effect.gen(function* () {
      const { sql, pool } = yield* Database
      yield* sql`create table turns (number integer)`

      yield* Effect.forEach(
        Array(50).keys(),
        (number) =>
          sql.withTransaction(
            Effect.gen(function* () {
              const [before] = yield* sql<{ count: bigint }>`select count(*) from turns`
              yield* Effect.yieldNow
              yield* sql`insert into turns values (${number})`
              const [after] = yield* sql<{ count: bigint }>`select count(*) from turns`
              assert.strictEqual(after!.count, before!.count + 1n)
              if (number % 2 === 1) return yield* Effect.fail("undo")
            }).pipe(Effect.catchTag("SqlError", Effect.die))
          ).pipe(Effect.result),
        { concurrency: "unbounded" }
      )

      assert.deepStrictEqual(yield* sql`select count(*)::integer as kept from turns`, [{ kept: 25 }])
      assert.deepStrictEqual(yield* pool, { connections: 1, busy: 0, waiting: 0 })
    })
  )

  it.effect("leaves nothing of an interrupted transaction, and goes on", () =>
    Effect.gen(function* () {
      const { sql, pool } = yield* Database
      yield* sql`create table interrupted (number integer)`

      const work = yield* Effect.forkChild(sql.withTransaction(Effect.andThen(sql`insert into interrupted values (1)`, Effect.never)))
      yield* onLiveClock(Effect.repeat(Effect.delay(pool, "5 millis"), { until: ({ busy }) => busy === 1 }))
      yield* Fiber.interrupt(work)

      assert.deepStrictEqual(yield* sql`select number from interrupted`, [])
    })
  )

  it.effect("hands nothing of a connection on to the next one", () =>
    Effect.gen(function* () {
      const { connect, sql, pool } = yield* Database
      const before = (yield* pool).connections
      const connected = <A, E>(use: (connection: PgConnection.PgConnection) => Effect.Effect<A, E>) =>
        Effect.scoped(Effect.flatMap(connect, use))

      yield* connected(({ query }) =>
        Effect.forEach(["set search_path to nowhere", "begin", "create temporary table mine (id integer)"], (text) => query(text))
      )

      yield* connected(({ query }) =>
        Effect.gen(function* () {
          const { rows } = yield* query("select current_setting('search_path') as path, to_regclass('pg_temp.mine')::text as mine")
          assert.deepStrictEqual(rows, [{ path: "public", mine: null }])
        })
      )
      yield* onLiveClock(Effect.repeat(Effect.delay(pool, "5 millis"), { until: ({ connections }) => connections === before }))
      assert.deepStrictEqual(yield* sql`select 1 as one`, [{ one: 1 }])
    })
  )
})

/** A fresh folder takes seconds, and more on a machine that is busy. */
const patience = 300_000

describe("PGlite in a folder", () => {
  const scope = Scope.makeUnsafe()
  beforeAll(() => {
    prepared = Effect.runPromise(Scope.provide(Effect.tap(temporary, (directory) => Effect.scoped(opened(directory))), scope))
    return prepared
  }, patience)
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

  it.live("has every acknowledged commit of a process that was killed, time and again", () =>
    Effect.gen(function* () {
      const directory = yield* used

      for (const commits of [1, 40, 7, 150, 3]) {
        const said = yield* killedAfter(directory, commits)
        assert.isAtLeast(said, commits)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { sql } = yield* opened(directory)
            const [found] = yield* sql<{ count: number; last: number }>`select count(*)::integer as count, max(number) as last from public.done`
            assert.strictEqual(found!.count, found!.last, "a commit in between is missing")
            // The last one may have been committed and not said.
            assert.include([said, said + 1], found!.last)
          })
        )
      }
    }).pipe(Effect.scoped),
    patience
  )

  it.live("belongs to one at a time", () =>
    Effect.gen(function* () {
      const directory = yield* used
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sql } = yield* opened(directory)
          const second = yield* Effect.result(opened(directory))
          assert.isTrue(Result.isFailure(second) && second.failure._tag === "FolderInUse")
          assert.isTrue(Result.isFailure(second) && second.failure.message.includes("in use by this process already"))
          yield* sql`create table kept as select 1 as one`
        })
      )
      assert.deepStrictEqual(fs.readdirSync(directory), ["cluster"])

      const { sql } = yield* opened(directory)
      assert.deepStrictEqual(yield* sql`select one from kept`, [{ one: 1 }])
    }).pipe(Effect.scoped),
    patience
  )

  it.live("is refused to a second process, and taken over from one that is gone", () =>
    Effect.gen(function* () {
      const directory = yield* used
      const living = spawn(process.execPath, ["--eval", "setInterval(() => {}, 1000)"])
      fs.writeFileSync(path.join(directory, "lock"), String(living.pid))

      const refused = yield* Effect.result(Effect.scoped(opened(directory)))
      assert.isTrue(Result.isFailure(refused) && refused.failure.message.includes(`in use by process ${living.pid}`))

      yield* Effect.callback<void>((resume) => {
        living.once("exit", () => resume(Effect.void))
        living.kill("SIGKILL")
      })
      yield* Effect.scoped(opened(directory))
      assert.isFalse(fs.existsSync(path.join(directory, "lock")))
    }).pipe(Effect.scoped),
    patience
  )

  it.live("is made anew when its making was cut short", () =>
    Effect.gen(function* () {
      const directory = yield* temporary
      fs.mkdirSync(path.join(directory, "cluster.new"))
      fs.writeFileSync(path.join(directory, "cluster.new", "PG_VERSION"), "18\n")

      const { sql } = yield* opened(directory)

      assert.deepStrictEqual(yield* sql`select 1 as one`, [{ one: 1 }])
    }).pipe(Effect.scoped),
    patience
  )

  it.live("says what is wrong with a folder that cannot be used", () =>
    Effect.gen(function* () {
      const directory = yield* temporary
      const file = path.join(directory, "file")
      fs.writeFileSync(file, "")

      const result = yield* Effect.result(Effect.scoped(opened(path.join(file, "database"))))

      assert.isTrue(Result.isFailure(result) && result.failure._tag === "FolderUnusable")
      assert.isTrue(Result.isFailure(result) && result.failure.message.includes(`the database folder ${file}/database cannot be used: ENOTDIR`))
    }).pipe(Effect.scoped),
    patience
  )

  it.live("is asked nothing while its disk is nearly full, and goes on once there is room", () =>
    Effect.gen(function* () {
      const directory = yield* used
      let free = 1024 ** 3
      const context = yield* Layer.build(Layer.fresh(Pglite.layer({ directory, freeBytes: () => free })))
      const { sql } = Context.get(context, Database)
      const one = sql`select 1 as one`
      assert.deepStrictEqual(yield* one, [{ one: 1 }])

      free = 33 * 1024 ** 2
      assert.deepStrictEqual(yield* one, [{ one: 1 }])
      free = 31 * 1024 ** 2
      const refused = yield* Effect.flip(one)
      assert.include(inspect(refused, { depth: 9 }), `ENOSPC, the disk of ${directory} has less than 32 MiB free`)

      free = 33 * 1024 ** 2
      assert.deepStrictEqual(yield* one, [{ one: 1 }])
    }).pipe(Effect.scoped),
    patience
  )

  it.live("is not opened on a disk that is too full, nor made on one that is full by then, and says how much it wants", () =>
    Effect.gen(function* () {
      const directory = yield* used
      const fresh = yield* temporary
      fs.rmSync(path.join(directory, "cluster", "global", "pg_control")) // opened, it would say so
      const refused = (directory: string, free: number) =>
        Effect.flip(Effect.scoped(Layer.build(Layer.fresh(Pglite.layer({ directory, freeBytes: () => free * 1024 ** 2 })))))

      for (const [folder, free, wanted] of [[directory, 0, 32], [directory, 31, 32], [fresh, 0, 72], [fresh, 71, 72]] as const) {
        const error = yield* refused(folder, free)
        assert.strictEqual(error._tag, "PgliteUnavailable")
        assert.strictEqual(error.message, `the disk of the database folder ${folder} has ${free} MiB free, and PostgreSQL may need ${wanted} MiB: make room, and start again`)
      }
      assert.deepStrictEqual(fs.readdirSync(fresh), [])
      assert.include((yield* refused(directory, 32)).message, "cannot be opened")
    }).pipe(Effect.scoped),
    patience
  )

  it.live("is asked all the same where nobody can tell how much is free", () =>
    Effect.gen(function* () {
      const directory = yield* used
      const { sql } = yield* opened(directory)
      const moved = path.join(yield* temporary, "moved")
      fs.renameSync(directory, moved)
      assert.deepStrictEqual(yield* sql`select 1 as one`, [{ one: 1 }])
      fs.renameSync(moved, directory)

      assert.strictEqual(fs.statfsSync("/proc").blocks, 0)
      assert.strictEqual(Pglite.freeBytesIn("/proc"), Infinity)
      assert.strictEqual(Pglite.freeBytesIn("/none"), Infinity)
      assert.isAbove(Pglite.freeBytesIn(directory), 0)
      assert.isBelow(Pglite.freeBytesIn(directory), Infinity)
    }).pipe(Effect.scoped),
    patience
  )

  it("says in words why its file system failed", () => {
    const said = [{ errno: 51 }, { errno: 69 }, { errno: 7 }, new Error("no memory"), "none"].map(Pglite.reasonOf)

    assert.deepStrictEqual(said, ["ENOSPC, no space left on the disk", "EROFS, the disk is read only", "error 7 of its file system", "Error: no memory", "none"])
  })

  it.live("is not made anew over what is left of one, and says what to do", () =>
    Effect.gen(function* () {
      for (const [lost, reason] of [["PG_VERSION", "it has no PG_VERSION"], ["global/pg_control", "RuntimeError: Aborted"], ["pg_wal", "PGlite failed to initialize"]] as const) {
        const directory = yield* used
        fs.rmSync(path.join(directory, "cluster", lost), { recursive: true })
        const before = fs.readdirSync(path.join(directory, "cluster"))

        const error = yield* Effect.flip(Effect.scoped(opened(directory)))

        assert.include(error.message, `the database in ${directory}/cluster cannot be opened: `, lost)
        assert.include(error.message, reason)
        assert.include(error.message, "if it is damaged, put it back from a copy. To begin anew, move that folder away")
        if (lost === "PG_VERSION") assert.deepStrictEqual(fs.readdirSync(path.join(directory, "cluster")), before)
      }
    }).pipe(Effect.scoped),
    patience
  )

  it.live("is not said to be damaged where its file system is the reason", () =>
    Effect.gen(function* () {
      for (const [code, remedy] of [["EACCES", "Let the user of this process read and write all that is in it"], ["EROFS", "Let its disk be written"], ["ENOSPC", "Make room, and start again"]] as const) {
        const directory = yield* used
        const failing = vi.spyOn(PGlite, "create").mockRejectedValue(new Error(`${code}: no`))
        yield* Effect.addFinalizer(() => Effect.sync(() => failing.mockRestore()))

        const error = yield* Effect.flip(Effect.scoped(opened(directory)))

        assert.strictEqual(error.message, `the database in ${directory}/cluster cannot be opened: Error: ${code}: no. ${remedy}`)
      }
    }).pipe(Effect.scoped),
    patience
  )

  it.live("gives up where no folder can be made", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.scoped(FolderLock.take("/proc/none/database")))

      assert.strictEqual(error._tag, "FolderUnusable")
    })
  )

  it.live("makes the folders above its own, for their owner only", () =>
    Effect.gen(function* () {
      const directory = path.join(yield* temporary, "one", "two")

      yield* FolderLock.take(directory)

      for (const one of [directory, path.dirname(directory)]) assert.strictEqual(fs.statSync(one).mode & 0o777, 0o700)
    }).pipe(Effect.scoped)
  )

  it.live("is taken from a process that has ended, also while its parent has not asked how, or its number is another's", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const lock = path.join(folder, "lock")
      const taken = Effect.result(Effect.scoped(FolderLock.take(folder)))
      // Who becomes `sleep` has a child that it never asks after; a shell would, so the child does not end before.
      const parent = spawn("sh", ["-c", 'while [ "$(cat /proc/$$/comm)" != sleep ]; do :; done & echo $!; exec sleep 600'], { stdio: ["ignore", "pipe", "ignore"] })
      yield* Effect.addFinalizer(() => Effect.sync(() => parent.kill("SIGKILL")))
      const ended = Number(String(yield* Effect.promise(() => once(parent.stdout, "data"))))
      while (!/\) Z /.test(fs.readFileSync(`/proc/${ended}/stat`, "utf8"))) yield* Effect.promise(() => new Promise(setImmediate))
      const boot = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
      const beganOf = (pid: number) => fs.readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ")[19]
      const began = beganOf(process.ppid)
      const pidNamespace = /\d+/.exec(fs.readlinkSync("/proc/self/ns/pid"))![0]

      yield* Effect.scoped(Effect.tap(FolderLock.take(folder), () => Effect.sync(() => assert.include(fs.readFileSync(lock, "utf8"), `${process.pid} ${boot}/${beganOf(process.pid)} ${pidNamespace} `))))
      for (const holder of [String(ended), `${process.ppid} ${boot}/1`, `${process.ppid} another/${began}`, `${process.ppid} ${boot}/1 ${pidNamespace}`, `${process.pid} ${boot}/1 ${pidNamespace}`]) {
        fs.writeFileSync(lock, holder)
        assert.isTrue(Result.isSuccess(yield* taken), holder)
      }
      for (const holder of [String(process.ppid), `${process.ppid} ${boot}/${began}`]) {
        fs.writeFileSync(lock, holder)
        const result = yield* taken
        assert.isTrue(Result.isFailure(result) && result.failure._tag === "FolderInUse" && result.failure.holder === process.ppid, holder)
      }
    }).pipe(Effect.scoped)
  )

  it.live("is not taken from a process that another container has, or the host, whatever its number, until that has ended", () =>
    Effect.gen(function* () {
      const folder = path.join(yield* temporary, "f".repeat(120)) // a path that no socket can have
      yield* Effect.scoped(FolderLock.take(folder))
      const taken = Effect.result(Effect.scoped(FolderLock.take(folder)))
      for (const number of [process.pid, process.ppid, 999_999_999]) {
        const socket = `lock.${number}.1.socket`
        const holder = spawn(process.execPath, ["--eval", `require("net").createServer().listen(${JSON.stringify(socket)}, () => console.log("listens"))`], {
          cwd: folder,
          stdio: ["ignore", "pipe", "inherit"]
        })
        yield* Effect.addFinalizer(() => Effect.sync(() => holder.kill("SIGKILL")))
        yield* Effect.promise(() => once(holder.stdout, "data"))
        fs.writeFileSync(path.join(folder, "lock"), `${number} another/1 1`)

        const refused = yield* taken
        assert.isTrue(Result.isFailure(refused))
        assert.include(Result.isFailure(refused) ? refused.failure.message : "", `is in use by process ${number} of another container, or of the host; stop it`)
        assert.deepStrictEqual(fs.readdirSync(folder).sort(), ["lock", socket])

        const ended = once(holder, "exit")
        holder.kill("SIGKILL")
        yield* Effect.promise(() => ended)
        assert.isTrue(Result.isSuccess(yield* taken))
        assert.deepStrictEqual(fs.readdirSync(folder), [])
      }
    }).pipe(Effect.scoped)
  )

  it.live("leaves a socket for others to knock at while it is held, and nothing when it is given back or was refused", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* FolderLock.take(folder)
          const [, socket] = fs.readdirSync(folder).sort()
          assert.match(socket!, new RegExp(`^lock\\.${process.pid}\\.\\d+\\.[0-9a-f]{16}\\.socket$`))
          const again = yield* Effect.result(Effect.scoped(FolderLock.take(folder)))
          assert.isTrue(Result.isFailure(again) && again.failure._tag === "FolderInUse" && !again.failure.isElsewhere)
          assert.deepStrictEqual(fs.readdirSync(folder).sort(), ["lock", socket])
        })
      )
      assert.deepStrictEqual(fs.readdirSync(folder), [])
    }).pipe(Effect.scoped)
  )
})
