import { assert, describe, it } from "@effect/vitest"
import { Duration, Redacted } from "effect"
import { once } from "node:events"
import * as net from "node:net"
import * as Hosts from "./Hosts.ts"

const hostsOf = (text: string) => Hosts.hostsOf(Redacted.make(text))

describe("the hosts of a URL", () => {
  for (const [text, names] of [
    ["postgres://ada:7@one.example/db", ["one.example:5432"]],
    ["postgres:///db", ["localhost:5432"]],
    ["postgres://ada@/db", ["localhost:5432"]],
    ["postgres://ada:a@b@:5433", ["localhost:5433"]],
    ["postgres://ada@/db?host=/run/postgresql", ["/run/postgresql:5432"]],
    ["postgres://ada:7@:5433/db?host=/run/postgresql", ["/run/postgresql:5433"]],
    ["postgresql://ada@one.example:1,two.example:2/db?sslmode=require", ["one.example:1", "two.example:2"]],
    ["postgres://one.example,two.example:2,three.example/db", ["one.example:5432", "two.example:2", "three.example:5432"]],
    ["postgres://ada@[::1]:1,[::2]/db", ["[::1]:1", "[::2]:5432"]],
    ["postgres://ada:a,b@c@one.example,two.example/db", ["one.example:5432", "two.example:5432"]],
    ["postgres://ada@one.example/a,b?application_name=c,d@e", ["one.example:5432"]],
    ["postgres://ada@%2Frun%2Fone,%2Frun%2Ftwo:2/db", ["/run/one:5432", "/run/two:2"]],
    ["postgres:///db?host=one.example,two.example", ["one.example:5432", "two.example:5432"]],
    ["postgres:///db?host=/run/one,two.example&port=1,2", ["/run/one:1", "two.example:2"]],
    ["postgres:///db?host=one.example,two.example&port=7", ["one.example:7", "two.example:7"]],
    ["postgres://here:1,there:2/db?host=one.example,two.example", ["one.example:1", "two.example:2"]]
  ] as const) {
    it(`${text} are ${names.join(" and ")}`, () => {
      const hosts = hostsOf(text) ?? []

      assert.deepStrictEqual<ReadonlyArray<string>>(hosts.map(Hosts.nameOf), names)
      // The driver reads its URL so, too: a host of its parameters goes before the other.
      for (const { host, port, url } of hosts) {
        const { searchParams } = new URL(Redacted.value(url))
        assert.deepStrictEqual([searchParams.get("host"), searchParams.get("port")], [host, String(port)])
      }
    })
  }

  it("keep the rest of the URL", () => {
    for (const { url } of hostsOf("postgres://ada:a%2Cb,c@one.example,two.example/db?sslmode=require")!) {
      const { password, pathname, searchParams, username } = new URL(Redacted.value(url))
      assert.deepStrictEqual([username, decodeURIComponent(password), pathname, searchParams.get("sslmode")], ["ada", "a,b,c", "/db", "require"])
    }
  })

  for (const text of [
    "one.example,two.example",
    "mysql://one.example,two.example/db",
    "postgres://one.example,,two.example/db",
    "postgres://ada@one.example,/db",
    "postgres://one.example:1,two.example:99999/db",
    "postgres://one.example:1,two.example:x/db",
    "postgres:///db?host=one.example&port=x",
    "postgres:///db?host=one.example&port=0",
    "postgres:///db?host=one.example&port=1.5",
    "postgres:///db?host=one.example&port=65536",
    "postgres:///db?host=one.example,two.example&port=1,2,3",
    "postgres:///db?host=one.example&port=1,2"
  ]) {
    it(`${text} are none`, () => assert.isNull(hostsOf(text)))
  }

  for (const [asked, wants] of [["", "primary"], ["?target_session_attrs=read-write", "read-write"], ["?target_session_attrs=any", null]] as const) {
    it(`are asked for ${wants} sessions by "${asked}"`, () =>
      assert.strictEqual(Hosts.sessionAttributesOf(Redacted.make(`postgres://one.example:1,two.example:2/db${asked}`)), wants)
    )
  }

  for (const [asked, seconds] of [["", 5], ["?connect_timeout=0", 5], ["?connect_timeout=1", 1], ["?connect_timeout=120", 120]] as const) {
    it(`are each given ${seconds} s by "${asked}"`, () =>
      assert.deepStrictEqual(Hosts.connectTimeoutOf(Redacted.make(`postgres://one.example:1,two.example:2/db${asked}`)), Duration.seconds(seconds))
    )
  }

  for (const asked of ["", "-1", "1.5", "ten", "1000"]) {
    it(`are not given "${asked}" seconds`, () => assert.isNull(Hosts.connectTimeoutOf(Redacted.make(`postgres://one.example:1/db?connect_timeout=${asked}`))))
  }
})

describe("a socket to a name", () => {
  it("goes to the first of the addresses that are left of it", async () => {
    const server = net.createServer().listen(0, "127.0.0.1")
    await once(server, "listening")
    const { port } = server.address() as net.AddressInfo // it listens
    const resolve: Hosts.Resolve = (_name, _options, done) => done(null, [{ address: "127.0.0.9", family: 4 }, { address: "127.0.0.1", family: 4 }])

    const socket = Hosts.dial({ host: "cluster.example", port }, (found) => found.slice(1), resolve)
    await once(socket, "connect")

    assert.strictEqual(socket.remoteAddress, "127.0.0.1")
    socket.destroy()
    server.close()
  })

  it("waits for an address that takes longer than Node's quarter of a second, where the next cannot be reached", async () => {
    const server = net.createServer().listen(0, "127.0.0.1")
    await once(server, "listening")
    const { port } = server.address() as net.AddressInfo // it listens
    const resolve: Hosts.Resolve = (_name, _options, done) =>
      void setImmediate(() => {
        done(null, [{ address: "127.0.0.1", family: 4 }, { address: "::1", family: 6 }])
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400) // the connection is there, and is looked at only then
      })

    const socket = Hosts.dial({ host: "cluster.example", port }, (found) => found, resolve)
    await once(socket, "connect")

    assert.strictEqual(socket.remoteAddress, "127.0.0.1")
    socket.destroy()
    server.close()
  })
})
