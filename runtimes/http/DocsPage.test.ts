import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import * as DocsPage from "./DocsPage.ts"
import { make, operationsOf, type Node } from "./Document.ts"
import { catalogue, codes, schemaName } from "./ErrorBody.ts"

const server = "https://mail-api.test/mail"
const document = make([server])
const page = DocsPage.render(document)

const unescaped = (html: string) =>
  html.replaceAll(/<[^>]+>/g, "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", "\"").replaceAll("&amp;", "&")

const section = (id: string) => page.split(`<section id="${id}">`)[1]!.split("</section>")[0]!

/** The cells of a table's rows, without its head, as they are read. */
const rowsOf = (html: string) =>
  [...html.matchAll(/<tr>(<td>.*?)<\/tr>/g)].map(([, row]) => [...row!.matchAll(/<td>(.*?)<\/td>/g)].map(([, cell]) => unescaped(cell!)))

const operations = operationsOf(document)

describe("The docs page", () => {
  it("may load nothing, be framed by nobody, and send nothing anywhere", () => {
    assert.deepStrictEqual(DocsPage.contentSecurityPolicy.split("; "), [
      "default-src 'none'",
      "style-src 'unsafe-inline'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'"
    ])
  })

  it("shows text as it is, and as nothing else", () => {
    const text = "a <b> & \"c\" **d** `<e>`\n\n- f\n- g"
    const html = DocsPage.render({ ...document, info: { ...document.info, title: text, description: text } })

    assert.include(html, "<title>a &lt;b&gt; &amp; &quot;c&quot; **d** `&lt;e&gt;`")
    assert.include(html, "<p>a &lt;b&gt; &amp; &quot;c&quot; <strong>d</strong> <code>&lt;e&gt;</code></p><ul><li>f</li><li>g</li></ul>")
  })

  it("has calls that do, when pasted, what their operations want", () => {
    const echo = "curl() { printf '%s\\0' \"$@\"; }; date() { printf '%s' \"$1\"; }; API_KEY=the-key"
    for (const { method, path, operation } of operations) {
      const call = unescaped(section(operation.operationId).split("<pre>")[1]!.split("</pre>")[0]!)
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase())
      const url = names.reduce((rest, name) => rest.replace(/\{\w+\}/, `of-${name}`), `${server}${path}`)
      const isIdempotent = operation.operationId === "sendMessage"
      const body = operation.requestBody?.content["application/json"].example

      const { stdout, status } = spawnSync("bash", ["-uec", `${echo}; ${names.map((name) => `${name}=of-${name}; `).join("")}${call}`], { encoding: "utf8" })

      const words = [
        ...(method === "GET" ? [] : ["-X", method]),
        url,
        "-H",
        "Authorization: Bearer the-key",
        ...(isIdempotent ? ["-H", "Idempotency-Key: send-+%s"] : []),
        ...(body === undefined ? [] : ["-H", "Content-Type: application/json", "-d", JSON.stringify(body)])
      ]
      assert.deepStrictEqual([status, stdout.split("\0").slice(0, -1)], [0, words], call)
    }
  })

  it("says of each operation what it answers, and with which codes it refuses", () => {
    for (const { operation } of operations) {
      const html = section(operation.operationId)
      const [success] = Object.keys(operation.responses).filter((status) => Number(status) < 400)
      assert.include(html, `<h4>Answer</h4><p>${success} `)
      assert.include(unescaped(html), JSON.stringify(operation.responses[success!]!.content["application/json"].example, null, 2))

      const refusals = Object.entries(operation.responses).flatMap(([status, { content }]) => {
        const text = JSON.stringify(content["application/json"].schema)
        const named = codes.filter((code) => text.includes(`/${schemaName(code)}"`))
        return Number(status) >= 400 ? [[status, named.join(", ")]] : []
      })
      assert.deepStrictEqual(rowsOf(html.split("<summary>Errors</summary>")[1]!), refusals)
    }
  })

  it("says of parameters and members what they may be, and which are wanted", () => {
    const parameters = (operation: string) => rowsOf(section(operation).split("<h4>Parameters</h4>")[1]!.split("</table>")[0]!)
    const member = (schema: string, name: string) => rowsOf(section(`schema-${schema}`)).find(([cell]) => cell === name)!

    const [limit, cursor, mailboxId] = parameters("listMessages")
    assert.deepStrictEqual(limit!.slice(0, 4), ["limit", "query", "integer", "no"])
    assert.match(limit![4]!, /at least 1; at most 100; default 25$/)
    assert.deepStrictEqual([cursor!.slice(0, 4), mailboxId!.slice(0, 4)], [["cursor", "query", "string, date-time", "no"], ["mailboxId", "query", "string, uuid", "no"]])
    const [key] = parameters("sendMessage")
    assert.deepStrictEqual(key!.slice(0, 4), ["Idempotency-Key", "header", "string", "yes"])
    assert.match(key![4]!, /characters, at least 8; characters, at most 255$/)
    assert.deepStrictEqual(parameters("getMessage")[0]!.slice(0, 4), ["messageId", "path", "string, uuid", "yes"])

    assert.deepStrictEqual(member("SendMessageInput", "fromMailboxId").slice(1, 3), ["string, uuid", "yes"])
    const to = member("SendMessageInput", "to")
    assert.deepStrictEqual(to.slice(1, 3), ["array of string, email", "yes"])
    assert.match(to[3]!, /items, at least 1; items, at most 50$/)
    assert.strictEqual(member("SendMessageInput", "cc")[2], "no")
    assert.deepStrictEqual(member("UpdateMessageInput", "folder").slice(1, 3), ["\"inbox\" | \"sent\" | \"archive\" | \"spam\" | \"trash\"", "no"])
  })

  it("has a section for each schema but the errors', which have a table that says what to do", () => {
    const errors: ReadonlySet<string> = new Set(["Error", ...codes.map(schemaName)])
    const shown = [...page.matchAll(/<section id="schema-(\w+)">/g)].map(([, name]) => name!)
    assert.deepStrictEqual(shown, Object.keys(document.components.schemas).filter((name) => !errors.has(name)))

    const plain = (text: string) => text.replaceAll("`", "")
    const expected = codes.map((code) => {
      const { status, meaning, remedy, details } = catalogue[code]
      return [String(status), code, plain(meaning), plain(remedy), Object.keys(details.fields as Node).join(", ")]
    })
    assert.deepStrictEqual(rowsOf(page.split("<h2 id=\"errors\">")[1]!), expected)
  })
})
