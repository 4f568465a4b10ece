import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { join } from "node:path"
import vectors from "../../docs/webhook-signatures.json" with { type: "json" }
import { judgeAddress, judgeUrl, sign, verify } from "./Inspect.ts"
import { type Line, Splitter } from "./Streams.ts"

const cli = join(import.meta.dirname, "main.ts")

const line = (text: string, over: Partial<Line> = {}): Line => ({ text, isCut: false, isUtf8: true, ...over })

/** Runs a verb of `inspect` to its end. */
const inspect = (verb: string, input: string | Uint8Array) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, "inspect", verb], {
    input,
    encoding: "utf8",
    maxBuffer: 1e9
  })
  return {
    status,
    lines: stdout.split("\n").slice(0, -1),
    stderr,
    json: () => stdout.split("\n").slice(0, -1).map((text) => JSON.parse(text))
  }
}

describe("inspect url", () => {
  const cases: ReadonlyArray<readonly [url: string, reason: string | null, host: string | null, port: number | null]> =
    [
      ["https://hooks.example.com/mailroom?x=1", null, "hooks.example.com", 443],
      ["https://HOOKS.example.com.:8443/", null, "hooks.example.com", 8443],
      ["https://bücher.example/", null, "xn--bcher-kva.example", 443],
      ["https://93.184.215.14/", null, "93.184.215.14", 443],
      ["https://0x7f.1/", "address", "127.0.0.1", 443],
      ["https://2130706433/", "address", "127.0.0.1", 443],
      ["https://[::ffff:10.0.0.1]/", "address", "::ffff:a00:1", 443],
      ["https://[64:ff9b::a9fe:a9fe]:8443/", "address", "64:ff9b::a9fe:a9fe", 8443],
      ["https://localhost/", "address", "localhost", 443],
      ["http://hooks.example.com/", "scheme", "hooks.example.com", 80],
      ["ftp://hooks.example.com/", "scheme", "hooks.example.com", null],
      ["https://ada:secret@hooks.example.com/", "credentials", "hooks.example.com", 443],
      ["https://hooks.example.com/#x", "fragment", "hooks.example.com", 443],
      ["https://hooks.example.com:22/", "port", "hooks.example.com", 22],
      ["hooks.example.com", "malformed", null, null],
      ["https://hooks example.com/", "malformed", null, null],
      ["", "malformed", null, null]
    ]
  for (const [url, reason, host, port] of cases) {
    it(`judges ${url}: ${reason ?? "fine"}`, () => {
      assert.deepStrictEqual(judgeUrl(line(url)), { input: url, ok: reason === null, reason, host, port })
    })
  }

  it("judges what is too long, and what is no text", () => {
    const long = `https://hooks.example.com/${"x".repeat(2_048)}`

    const { input, ...judged } = judgeUrl(line(long))
    assert.deepStrictEqual(judged, { ok: false, reason: "too_long", host: "hooks.example.com", port: 443 })
    assert.strictEqual(input, `${long.slice(0, 1_024)}…`)
    assert.strictEqual(judgeUrl(line("https://hooks.example.com/", { isCut: true })).reason, "too_long")
    assert.strictEqual(judgeUrl(line("https://hooks.example.com/\ufffd", { isUtf8: false })).reason, "malformed")
  })
})

describe("inspect address", () => {
  it("normalises an address, or says why it is none", () => {
    const { normalized, ...rest } = judgeAddress(line("Ada@BÜCHER.example"))
    assert.deepStrictEqual({ ...rest, normalized: String(normalized) }, {
      input: "Ada@BÜCHER.example",
      ok: true,
      reason: null,
      normalized: "Ada@xn--bcher-kva.example"
    })
    assert.deepStrictEqual(judgeAddress(line("ada")), {
      input: "ada",
      ok: false,
      normalized: null,
      reason: "an address is local@domain"
    })
    assert.strictEqual(
      judgeAddress(line("a@b.example", { isCut: true })).reason,
      "an address has at most 254 characters"
    )
    assert.strictEqual(judgeAddress(line("a@b.example", { isUtf8: false })).reason, "the line is not UTF-8")
  })
})

describe("A splitter of lines", () => {
  const split = (chunks: ReadonlyArray<string | Uint8Array>, bytesMax = 100): ReadonlyArray<Line> => {
    const splitter = new Splitter(bytesMax)
    return [...chunks.flatMap((chunk) => splitter.push(Buffer.from(chunk))), ...splitter.end()]
  }

  it("finds the same lines however they arrive, with LF or CR LF, and a last one without", () => {
    const text = "\ufeffé\r\n\nb\rc\nlast"
    const bytes = Buffer.from(text)
    const expected = ["é", "", "b\rc", "last"].map((one) => line(one))

    assert.deepStrictEqual(split([text]), expected)
    assert.deepStrictEqual(split([...bytes].map((byte) => Uint8Array.of(byte))), expected)
    for (let at = 0; at < bytes.length; at++) {
      assert.deepStrictEqual(split([bytes.subarray(0, at), bytes.subarray(at)]), expected)
    }
  })

  it("keeps no more of a line than it may have, and goes on behind it", () => {
    assert.deepStrictEqual(split(["x".repeat(90), "y".repeat(90), "\nz"]), [
      line("x".repeat(90) + "y".repeat(10), { isCut: true }),
      line("z")
    ])
    assert.deepStrictEqual(split(["x".repeat(100), "\n"]), [line("x".repeat(100))])
    assert.deepStrictEqual(split(["x".repeat(101), "\n"]), [line("x".repeat(100), { isCut: true })])
  })

  it("counts the CR of its end for no part of a line", () => {
    const whole = line("x".repeat(100))
    for (const chunks of [["x".repeat(100) + "\r\n"], ["x".repeat(100), "\r\n"], ["x".repeat(100) + "\r", "\n"]]) {
      assert.deepStrictEqual(split(chunks), [whole])
    }
    for (const more of ["y\r\n", "\r\r\n", "\ry\n"]) {
      assert.deepStrictEqual(split(["x".repeat(100) + more]), [{ ...whole, isCut: true }])
    }
  })

  it("says what is not UTF-8", () => {
    assert.deepStrictEqual(split([Uint8Array.of(0x61, 0xff, 0x0a, 0x62)]), [
      line("a\ufffd", { isUtf8: false }),
      line("b")
    ])
  })
})

const bodyOf = (
  vector: { readonly bodyBase64?: string; readonly bodyRepeated?: { readonly base64: string; readonly count: number } }
): string =>
  vector.bodyRepeated === undefined ? vector.bodyBase64! : Buffer.concat(
    Array.from({ length: vector.bodyRepeated.count }, () => Buffer.from(vector.bodyRepeated!.base64, "base64"))
  ).toString("base64")

describe("inspect sign and verify", () => {
  for (const vector of vectors.accepted) {
    it.effect(`agree with the published vector: ${vector.title}`, () =>
      Effect.gen(function* () {
        const { secret, id, timestamp, signature } = vector
        const body = bodyOf(vector)

        const headers = yield* sign({ secret, id, timestamp, body })
        const verdict = yield* verify({ secret, id, timestamp, body, signature, now: Number(vector.now ?? timestamp) })

        assert.deepStrictEqual(headers, {
          "Service-Webhook-Id": id,
          "Service-Webhook-Timestamp": timestamp,
          "Service-Webhook-Signature": signature
        })
        assert.deepStrictEqual(verdict, { ok: true, reason: null })
      }))
  }

  const request = {
    secret: "whsec_0123456789abcdef",
    id: "0199d6a0-7c4e-7b1a-9f3d-0000000000d4",
    timestamp: 1_796_117_400,
    body: "e30="
  }
  const signed = Effect.map(sign(request), (headers) => headers["Service-Webhook-Signature"])
  const verdicts: ReadonlyArray<readonly [what: string, change: (signature: string) => object, reason: string | null]> =
    [
      ["as it is", () => ({}), null],
      ["300 seconds later", () => ({ now: 1_796_117_700 }), null],
      ["300 seconds earlier", () => ({ now: "1796117100" }), null],
      ["301 seconds later", () => ({ now: 1_796_117_701 }), "timestamp_out_of_tolerance"],
      ["301 seconds earlier", () => ({ now: 1_796_117_099 }), "timestamp_out_of_tolerance"],
      ["with the timestamp as text", () => ({ timestamp: "1796117400" }), null],
      ["with a fraction in the timestamp", () => ({ timestamp: 1_796_117_400.5 }), "malformed_timestamp"],
      ["with a sign before the timestamp", () => ({ timestamp: "+1796117400" }), "malformed_timestamp"],
      [
        "with upper-case hex",
        (signature) => ({ signature: `v1=${signature.slice(3).toUpperCase()}` }),
        "malformed_signature"
      ],
      ["without the prefix", (signature) => ({ signature: signature.slice(3) }), "malformed_signature"],
      ["with a digit missing", (signature) => ({ signature: signature.slice(0, -1) }), "malformed_signature"],
      ["with another signature", () => ({ signature: `v1=${"0".repeat(64)}` }), "signature_mismatch"],
      ["with another body", () => ({ body: "e30K" }), "signature_mismatch"],
      ["with another id", () => ({ id: "x" }), "signature_mismatch"],
      ["with another secret", () => ({ secret: "whsec_x" }), "signature_mismatch"],
      ["without an id", () => ({ id: "" }), "missing_header"],
      ["with two ids", () => ({ id: "a,b" }), "repeated_header"]
    ]
  for (const [what, change, reason] of verdicts) {
    it.effect(`verify a request ${what}: ${reason ?? "fine"}`, () =>
      Effect.gen(function* () {
        const signature = yield* signed
        const verdict = yield* verify({ ...request, signature, now: 1_796_117_400, ...change(signature) })

        assert.deepStrictEqual(verdict, { ok: reason === null, reason })
      }))
  }

  const faults: ReadonlyArray<readonly [change: object, message: RegExp]> = [
    [{ secret: undefined }, /^secret wants a string$/],
    [{ secret: "topsecret" }, /^secret wants the whsec_… text/],
    [{ secret: "whsec_" }, /^secret wants/],
    [{ id: 5 }, /^id wants a string$/],
    [{ id: "" }, /^id wants 1 to 255 visible/],
    [{ id: "a,b" }, /^id wants/],
    [{ id: "a\r\nb" }, /^id wants/],
    [{ id: "a".repeat(256) }, /^id wants/],
    [{ timestamp: null }, /^timestamp wants Unix seconds$/],
    [{ timestamp: -1 }, /^timestamp wants/],
    [{ timestamp: 1e21 }, /^timestamp wants/],
    [{ timestamp: "1".repeat(16) }, /^timestamp wants/],
    [{ body: "topsecret!" }, /^body wants Base64/],
    [{ body: "QQ" }, /^body wants Base64/],
    [{ body: "QQ==\n" }, /^body wants Base64/]
  ]
  for (const [change, message] of faults) {
    it.effect(`name the member at fault, and not its value: ${JSON.stringify(change)}`, () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(sign({ ...request, ...change }))

        assert.match(error.message, message)
        assert.notInclude(error.message, "topsecret")
        assert.strictEqual(error.exitCode, 2)
      }))
  }

  it.effect("want what only verify needs", () =>
    Effect.gen(function* () {
      assert.match((yield* Effect.flip(verify(request))).message, /^signature is missing; it wants a string$/)
      for (const now of ["soon", 8.64e12 + 1, "1".repeat(16), true]) {
        assert.match((yield* Effect.flip(verify({ ...request, signature: "", now }))).message, /^now wants Unix seconds$/)
      }
    }))
})

describe("mailroom inspect", () => {
  it("answers each line with one line of JSON, in order, and leaves empty ones out", () => {
    const { status, stderr, json } = inspect(
      "url",
      Buffer.concat([
        Buffer.from("https://a.example/\r\n\r\nhttps://10.0.0.1/\n"),
        Buffer.from([0xff]),
        Buffer.from("\nlast")
      ])
    )

    assert.deepStrictEqual([status, stderr], [0, ""])
    assert.deepStrictEqual(json().map(({ input, ok, reason }) => [input, ok, reason]), [
      ["https://a.example/", true, null],
      ["https://10.0.0.1/", false, "address"],
      ["\ufffd", false, "malformed"],
      ["last", false, "malformed"]
    ])
    assert.deepStrictEqual(Object.keys(json()[0]), ["input", "ok", "reason", "host", "port"])
    const nothing = inspect("address", "")
    assert.deepStrictEqual([nothing.status, nothing.lines, nothing.stderr], [0, [], ""])
  }, 60_000)

  it("reads lines of any length, and none into memory", () => {
    const { status, json } = inspect("address", `${"x".repeat(5_000_000)}\na@b.example\n`)

    assert.strictEqual(status, 0)
    assert.deepStrictEqual(json().map(({ ok, reason }) => [ok, reason]), [[
      false,
      "an address has at most 254 characters"
    ], [true, null]])
  }, 60_000)

  it("takes an object over several lines, and one in each line", () => {
    const object = { secret: "whsec_a", id: "x", timestamp: 1, body: "" }
    const { status, json } = inspect(
      "sign",
      `${JSON.stringify(object, null, 2)}\r\n \n${JSON.stringify({ ...object, id: "}" })} \t\n${JSON.stringify(object)}`
    )

    assert.strictEqual(status, 0)
    assert.deepStrictEqual(json().map((headers) => headers["Service-Webhook-Id"]), ["x", "}", "x"])
    assert.deepStrictEqual(json()[0], json()[2])
  }, 60_000)

  it("verifies at the clock's time, unless told another", () => {
    const seconds = Math.floor(Date.now() / 1000)
    const object = {
      secret: "whsec_a",
      id: "x",
      timestamp: seconds,
      body: Buffer.from([0xff, 0x00]).toString("base64")
    }
    const [headers] = inspect("sign", JSON.stringify(object)).json()
    const signature = headers["Service-Webhook-Signature"]

    const { json, status } = inspect(
      "verify",
      [{ ...object, signature }, { ...object, signature, now: seconds + 301 }].map((one) => JSON.stringify(one)).join(
        "\n"
      )
    )

    assert.deepStrictEqual([status, json()], [0, [{ ok: true, reason: null }, {
      ok: false,
      reason: "timestamp_out_of_tolerance"
    }]])
  }, 60_000)

  it("tells a fault in one line, with exit code 2, and never a secret", () => {
    const good = JSON.stringify({ secret: "whsec_topsecret", id: "x", timestamp: 1, body: "" })
    const faults: ReadonlyArray<readonly [input: string, says: string, answered: number]> = [
      ["", "mailroom: standard input is empty; it wants a JSON object\n", 0],
      ['{"secret":"whsec_topsecret"', "mailroom: standard input is no JSON object\n", 0],
      ['["whsec_topsecret"]', "mailroom: standard input is no JSON object\n", 0],
      ['{"secret":"whsec_topsecret"}', "mailroom: id is missing; it wants a string\n", 0],
      [`${good}\n\n{"secret":"whsec_topsecret","id":5}\n${good}`, "mailroom: id wants a string (line 3)\n", 1],
      [`${good}\n{whsec_topsecret}\n${good}`, "mailroom: line 2 is no JSON object\n", 1],
      // Characters of three bytes, over two lines: fewer characters than that.
      [`{"a":"${"日".repeat(6_000_000)}",\n"b":"${"日".repeat(6_000_000)}"}`, "mailroom: standard input has more than 33554432 bytes\n", 0]
    ]
    for (const [input, says, answered] of faults) {
      const { status, stderr, lines } = inspect("sign", input)
      assert.deepStrictEqual([status, stderr, lines.length], [2, says, answered])
    }
  }, 60_000)

  it("ends without a word when nobody reads on", async () => {
    const child = spawn(process.execPath, [cli, "inspect", "url"], { stdio: ["pipe", "pipe", "pipe"] })
    const said: Array<string> = []
    child.stderr.on("data", (chunk: Buffer) => said.push(chunk.toString()))
    child.stdin.on("error", () => {}) // it may be gone before all is written
    child.stdout.once("data", () => child.stdout.destroy())
    child.stdin.write("https://a.example/\n".repeat(1_000))
    const feeding = setInterval(() => child.stdin.write("https://a.example/\n".repeat(1_000)), 5)

    const status = await new Promise((resolve) => child.once("exit", resolve))

    clearInterval(feeding)
    assert.deepStrictEqual([status, said.join("")], [0, ""])
  }, 60_000)

  it("ends with 2 when the verb is missing, with the verbs there are, or unknown, with how to see them", () => {
    for (const [verbs, says] of [
      [[], /url[^]*address[^]*sign[^]*verify/],
      [["everything"], /Unknown subcommand "everything"[^]*`mailroom inspect --help`/]
    ] as const) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [cli, "inspect", ...verbs], { encoding: "utf8" })
      assert.deepStrictEqual([status, stdout], [2, ""])
      assert.match(stderr, says)
    }
  }, 60_000)
})

describe("inspect", () => {
  const obeyed = "\u009b31m\u202eb\u007f"
  const report = `Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\n` +
    `Reporting-MTA: dns; a.example\n\nFinal-Recipient: rfc822; ada@a.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 ${obeyed}\n\n--b--\n`
  const inputs = {
    url: `https://h.example/${obeyed}\n`,
    address: `${obeyed}@h.example\n`,
    mime: `Subject: ${obeyed}\n\n${obeyed}\n`,
    dsn: report
  }
  for (const [verb, input] of Object.entries(inputs)) {
    it(`${verb} prints nothing that a terminal obeys, and for programs the same text`, () => {
      const { lines, json } = inspect(verb, input)

      assert.notMatch(lines.join("\n"), /[\u007f-\u009f\u202e]/)
      assert.include(lines.join("\n"), String.raw`\u009b31m\u202eb\u007f`)
      assert.include(JSON.stringify(json()), obeyed)
    })
  }
})
