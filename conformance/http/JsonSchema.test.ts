/** Held to a validator of its own kind: what ajv calls fitting fits, and nothing else. */
import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import addFormats from "ajv-formats"
import * as Document from "../../runtimes/http/Document.ts"
import { faultsOf } from "./JsonSchema.ts"

const ajv = new Ajv2020({ strict: false, allErrors: true, logger: false }) // The module is CommonJS, whose default export is typed as the namespace.
;(addFormats as unknown as (ajv: Ajv2020) => void)(ajv)

const uuid = "0199d6a0-7c4e-7b1a-9f3d-0000000000d4"
const values: ReadonlyArray<unknown> = [
  null,
  true,
  0,
  1,
  1.5,
  -1,
  100,
  "",
  "a",
  "abc",
  "😀😀",
  uuid,
  "2026-12-01T09:30:00.123Z",
  "2026-12-01",
  [],
  [1],
  [1, "a"],
  [1, 2, 3],
  {},
  { a: 1 },
  { a: "x", b: 1 },
  { "a/b": 1 },
  { a: { a: 1 } },
  { kind: "x", x: 1 },
  { kind: "y" }
]

const schemas: ReadonlyArray<object> = [
  {},
  ...["null", "boolean", "integer", "number", "string", "array", "object"].map((type) => ({ type })),
  { type: ["string", "null"] },
  { type: "string", minLength: 1, maxLength: 2 },
  { type: "string", pattern: "^a" },
  { type: "string", format: "uuid" },
  { type: "string", format: "date-time" },
  { type: "string", format: "of-nobody" },
  { minimum: 1, maximum: 100 },
  { exclusiveMinimum: 0, exclusiveMaximum: 100 },
  { enum: [1, "a", null] },
  { const: { a: 1 } },
  { type: "array", items: { type: "integer" }, minItems: 1, maxItems: 2 },
  { type: "array", prefixItems: [{ type: "integer" }], items: { type: "string" } },
  { type: "array", prefixItems: [{ type: "integer" }], items: false },
  { type: "object", properties: { a: { type: "integer" } }, required: ["a"] },
  { type: "object", properties: { a: { type: "integer" } }, additionalProperties: false },
  { type: "object", additionalProperties: { type: "integer" } },
  { properties: { a: { type: "integer" } }, required: ["b"] },
  { anyOf: [{ type: "string" }, { minimum: 1 }] },
  { oneOf: [{ type: "number" }, { minimum: 1 }] },
  { allOf: [{ minimum: 1 }, { maximum: 1 }] },
  {
    oneOf: [{ properties: { kind: { const: "x" }, x: { type: "integer" } }, required: ["kind", "x"] }, {
      properties: { kind: { const: "y" } },
      required: ["kind"]
    }]
  },
  { $ref: "#/$defs/Positive", $defs: { Positive: { type: "integer", minimum: 1 } } },
  { type: "object", properties: { a: { anyOf: [{ $ref: "#" }, { type: "integer" }] } }, required: ["a"] }
]

describe("The validator of answers", () => {
  for (const schema of schemas) {
    it(`agrees with ajv about ${JSON.stringify(schema)}`, () => {
      const isValid = ajv.compile(schema)
      const resolve = (
        reference: string
      ) => (reference === "#" ? schema : (schema as { $defs: object }).$defs["Positive" as never]) // the two references above
      for (const value of values) {
        assert.strictEqual(faultsOf(schema, value, resolve).length === 0, isValid(value), JSON.stringify(value))
      }
    })
  }

  it("takes the examples of the published document, and notices when one loses a member", () => {
    const document = Document.make(["https://mail.example.com"])
    const resolve = (reference: string) => document.components.schemas[reference.split("/").at(-1)!]
    let judged = 0
    for (const { operation } of Document.operationsOf(document)) {
      for (const { content } of Object.values(operation.responses)) {
        const { schema, example } = content["application/json"]
        if (typeof example !== "object" || example === null) continue
        judged += 1
        assert.deepStrictEqual(faultsOf(schema, example, resolve), [], operation.operationId)
        const [name] = Object.keys(example)
        assert.deepStrictEqual(
          faultsOf(schema, { ...example, [name!]: undefined, other: 1 }, resolve).length > 0,
          true,
          operation.operationId
        )
      }
    }
    assert.isAtLeast(judged, 10)
  })

  it("points at what is wrong", () => {
    const schema = {
      type: "object",
      properties: {
        items: {
          type: "array",
          items: { type: "object", properties: { "a/b": { type: "integer" } }, additionalProperties: false }
        }
      }
    }

    assert.deepStrictEqual(faultsOf(schema, { items: [{ "a/b": "x", c: 1 }] }, () => undefined), [
      "/items/0/a~1b: expected integer",
      "/items/0/c: is no member of it"
    ])
    assert.deepStrictEqual(faultsOf({ $ref: "#/gone" }, 1, () => undefined), [": the document has no #/gone"])
  })
})
