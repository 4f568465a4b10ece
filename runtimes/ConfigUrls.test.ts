/** The URLs of what keeps and counts: what they may ask for, and what is told of them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Config from "./Config.ts"

const faultsOf = (variables: Readonly<Record<string, string>>) =>
  Effect.map(Effect.flip(Config.load(variables)), ({ faults }) => faults)

describe("Config", () => {
  it.effect("refuses a URL whose password was cut short, for the rest would be told as its place", () =>
    Effect.gen(function* () {
      for (const cut of ["7/love", "7?love", "7#love"]) {
        for (const [name, scheme] of [["MAILROOM_DATABASE_URL", "postgres"], ["MAILROOM_REDIS_URL", "redis"]] as const) {
          const faults = yield* faultsOf({ [name]: `${scheme}://ada:${cut}@host.example/0` })
          assert.lengthOf(faults, 1)
          assert.match(faults[0]!, new RegExp(`^${name} wants a URL such as .*, the password percent-encoded(?:, and no parameters)?$`))
        }
      }
      // A percent sign of the password itself is to be encoded too.
      for (const cut of ["a%zz@host.example/a", "ada:7%zz@host.example/a", "ada:7@host.example/a%zz"]) {
        assert.lengthOf(yield* faultsOf({ MAILROOM_DATABASE_URL: `postgres://${cut}` }), 1, cut)
      }
      yield* Config.load({ MAILROOM_REDIS_URL: "unix:///run/redis@main.sock", MAILROOM_DATABASE_URL: "postgres://ada@there:7%2Flove@host.example/a" })
      yield* Config.load({ MAILROOM_DATABASE_URL: "postgres://ada:7@host.example/a?application_name=a@b" })
    })
  )

  it.effect("takes several hosts of a database, and refuses sessions that do not write", () =>
    Effect.gen(function* () {
      const url = "postgres://ada:lovelace@one.example:5432,two.example:5433/a"
      for (const asked of ["", "?connect_timeout=10", "?target_session_attrs=read-write", "?target_session_attrs=primary&sslmode=require"]) yield* Config.load({ MAILROOM_DATABASE_URL: url + asked })

      assert.deepStrictEqual(yield* faultsOf({ MAILROOM_DATABASE_URL: `${url}?target_session_attrs=prefer-standby` }), [
        "MAILROOM_DATABASE_URL (or DATABASE_URL) has a target_session_attrs that is neither primary nor read-write: every session writes"
      ])
      assert.deepStrictEqual(yield* faultsOf({ MAILROOM_DATABASE_URL: `${url}?connect_timeout=10s` }), [
        "MAILROOM_DATABASE_URL (or DATABASE_URL) has a connect_timeout that is no whole number of seconds up to 999"
      ])
      assert.deepStrictEqual(yield* faultsOf({ MAILROOM_DATABASE_URL: `${url}?sslmode=never` }), [
        "MAILROOM_DATABASE_URL (or DATABASE_URL) has a sslmode that is none of disable, allow, prefer, require, verify-ca, verify-full"
      ])
      for (const bad of [url.replace(",", ",,"), url.replace("5433", "x"), "postgres://ada:7,8/lovelace@one.example/a", "postgres://one.example,two.example:7?love@host/a"]) {
        const [fault, ...others] = yield* faultsOf({ MAILROOM_DATABASE_URL: bad })
        assert.match(fault!, /^MAILROOM_DATABASE_URL wants a URL such as/, bad)
        assert.notInclude(fault, "lovelace")
        assert.deepStrictEqual(others, [])
      }
    })
  )

  it.effect("passes over nothing that a database's URL asks for, and repeats nothing that may be of its password", () =>
    Effect.gen(function* () {
      const faultOf = Effect.fnUntraced(function* (asked: string) {
        const [fault, ...others] = yield* faultsOf({ MAILROOM_DATABASE_URL: `postgres://ada:lovelace@one.example/a?${asked}` })
        assert.deepStrictEqual(others, [])
        return fault!.replace("MAILROOM_DATABASE_URL (or DATABASE_URL) ", "")
      })

      for (const name of ["ssl", "SSLMODE", "sslmod", "sslrootcert", "channel_binding", "require_auth"]) {
        assert.strictEqual(yield* faultOf(`application_name=a&${name}=true`), `has a parameter ${name} that is not read; sslmode=require is how TLS is asked for, and NODE_EXTRA_CA_CERTS names a private authority`)
      }
      assert.match(yield* faultOf("schema=public"), /^has a parameter schema that is not read; those that are: host, port, .*sslmode$/)
      assert.strictEqual(yield* faultOf("sslmode=require&sslmode=disable"), "has sslmode more than once")
      for (const ofPassword of ["love&lace@two.example/a", "love=lace@two.example/a", "love-lace"]) {
        assert.match(yield* faultOf(ofPassword), /^has a parameter that is not read; /)
      }
      yield* Config.load({ MAILROOM_DATABASE_URL: "postgres:///a?host=/run/one&port=1&user=ada&password=7&dbname=b&application_name=c&options=-c%20a%3Db&connect_timeout=1&target_session_attrs=primary&sslmode=disable" })
    })
  )

  it.effect("passes over nothing that a Redis URL asks for", () =>
    Effect.gen(function* () {
      const load = (url: string) => Config.load({ MAILROOM_REDIS_URL: url })

      for (const url of ["redis://ada:7@host.example/1", "unix:///run/redis.sock", "unix:///run/redis.sock?db=3"]) yield* load(url)
      for (const url of ["redis://host.example?ssl=true", "rediss://host.example/0?db=1", "unix:///run/redis.sock?db=3&tls=true", "unix:///run/redis.sock?db=x"]) {
        assert.match((yield* Effect.flip(load(url))).message, /MAILROOM_REDIS_URL wants a URL such as .* and no parameters$/, url)
      }
    })
  )
})
