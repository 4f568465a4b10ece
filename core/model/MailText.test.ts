import { assert, describe, it } from "@effect/vitest"
import { addressesIn, addressesOf, textOfHtml } from "./MailText.ts"

describe("what a page says", () => {
  const rows: ReadonlyArray<readonly [title: string, html: string, text: string]> = [
    ["has a line for each block", "<p>550 no such user</p><div>ada@example.com</div>", "\n550 no such user\n\nada@example.com\n"],
    ["has its entities read", "&lt;ada&#64;example.com&gt; &amp; &unknown;", "<ada@example.com> & &unknown;"],
    ["is nothing of a comment, whatever stands in it", "<p>Hello</p><!-- hidden > secret@example.com -->bye", "\nHello\nbye"],
    ["is nothing of a title, a style or a script", "<title>a</title>b<style>c{}</style >d<script>if (1 < 2) e()</script>f", "bdf"],
    ["ends where a tag does not", "a<b", "a"],
    ["ends where a comment does not", "a<!-- b > c", "a"],
    ["ends where a script does not", "a<script>b<p>c", "a"]
  ]
  for (const [title, html, text] of rows) it(title, () => assert.strictEqual(textOfHtml(html), text))
})

describe("the addresses in a field", () => {
  it("are the one that is all of it, without a sign taken off, and none without a domain worth the name", () => {
    assert.deepStrictEqual(addressesOf(" *bob@dest.example "), ["*bob@dest.example"])
    assert.deepStrictEqual(addressesOf("bob@localhost"), [])
    assert.deepStrictEqual(addressesOf("*bob@dest.example, eve@dest.example"), ["bob@dest.example", "eve@dest.example"])
  })
})

describe("the addresses in a line", () => {
  it("keep the sign that they begin with where brackets are around them, and not behind one alone", () => {
    const found = (line: string) => addressesIn(line).map(({ address }) => address)

    assert.deepStrictEqual(found("to <*bob@dest.example>:"), ["*bob@dest.example"])
    assert.deepStrictEqual(found("to <*bob@dest.example :"), ["bob@dest.example"])
    assert.deepStrictEqual(found("to *bob@dest.example>:"), ["bob@dest.example"])
  })
})
