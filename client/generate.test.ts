import { assert, describe, it } from "@effect/vitest"
import { generate, type Document } from "./generate.ts"

const object = (
  properties: Readonly<Record<string, unknown>>,
  required: ReadonlyArray<string> = Object.keys(properties)
) => ({ type: "object", properties, required })
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
const json = (schema: unknown) => ({ content: { "application/json": { schema } } })
const folder = { type: "string", enum: ["inbox", "trash"] }

const schemas = {
  BrokenError: {
    ...object({ code: { type: "string", const: "broken" }, details: object({ part: folder }) }),
    description: "It broke."
  },
  Error: object({ code: { type: "string" } }),
  Event: object({ id: { type: "string", format: "uuid" }, type: { type: "string" }, data: { type: "object" } }),
  Input: object(
    {
      folder,
      note: { type: "string", maxLength: 1_998, default: "", description: "A note." },
      inner: ref("Input")
    },
    ["folder"]
  ),
  OneOfTwo: {
    ...object({ a: { type: "string" }, b: { type: "boolean" } }, []),
    allOf: [{ anyOf: [{ required: ["a"] }, { required: ["b"] }] }]
  },
  Part: object({
    parts: { type: "array", items: ref("Part") },
    folder,
    at: { anyOf: [{ type: "string", format: "date-time" }, { type: "null" }] }
  }),
  PartMovedAwayData: object({ object: { type: "string", const: "part" }, free: { type: "object" } })
}

const operation = (id: string, more: Readonly<Record<string, unknown>> = {}) => ({
  operationId: id,
  summary: "Do it",
  description: "Does */ it.",
  responses: { 201: json(object({ part: ref("Part") })), 409: json(ref("BrokenError")) },
  ...more
})
const limit = {
  name: "limit",
  in: "query",
  required: false,
  description: "How many.",
  schema: { type: "integer", minimum: 1, maximum: 100 }
}
const partId = { name: "partId", in: "path", required: true, description: "Which.", schema: { type: "string" } }

const documentOf = (
  overrides: {
    readonly schemas?: Readonly<Record<string, unknown>>
    readonly operation?: Readonly<Record<string, unknown>>
  } = {}
): Document =>
  ({
    info: { version: "1.2.3" },
    paths: {
      "/v1/parts/{partId}": {
        post: operation("makePart", {
          parameters: [partId, limit],
          requestBody: json({ oneOf: [ref("Input"), ref("OneOfTwo")] }),
          ...overrides.operation
        }),
        get: operation("readPart")
      }
    },
    components: { schemas: { ...schemas, ...overrides.schemas } }
  }) as Document // what the service publishes is this and more

describe("The types of the contract", () => {
  const text = generate(documentOf())

  const holds = (title: string, part: string) => it(title, () => assert.include(text, part))

  holds("name the version", "(`/openapi.yaml`, version 1.2.3)")
  holds(
    "close what a request may hold, and tell its limits",
    `export interface Input {
  readonly folder: "inbox" | "trash"
  /** A note. At most 1,998 characters. Default: \`""\`. */
  readonly note?: string | undefined
  readonly inner?: Input | undefined
}`
  )
  holds(
    "ask for one member of several",
    `export type OneOfTwo = {
  readonly a?: string | undefined
  readonly b?: boolean | undefined
} & ({ readonly a: string } | { readonly b: boolean })`
  )
  holds(
    "keep the vocabularies of answers open",
    `export interface Part {
  readonly parts: ReadonlyArray<Part>
  readonly folder: Open<"inbox" | "trash">
  readonly at: DateTime | null
}`
  )
  holds("know the type of an event by its data's name", `readonly "part.moved_away": PartMovedAwayData`)
  holds("leave what is free-form free", "readonly free: Readonly<Record<string, unknown>>")
  holds("tie an event's data to its type", "readonly type: Type\n  readonly data: Data")
  holds(
    "list details by code, with the status",
    `  /** 409: It broke. */
  readonly broken: {
    readonly part: Open<"inbox" | "trash">
  }`
  )
  holds(
    "say what an operation takes and answers",
    `  /**
   * Do it.
   *
   * Does *\\/ it.
   */
  readonly makePart: {
    readonly query: {
      /** How many. 1 to 100. */
      readonly limit?: number | undefined
    }
    readonly input: Input | OneOfTwo
    readonly output: {
      readonly part: Part
    }
    readonly code: CommonCode
  }`
  )
  holds("name once what all operations can be refused with", `export type CommonCode =\n  | "broken"\n`)
  holds(
    "say where each operation is",
    `  makePart: { method: "POST", path: "/v1/parts/{partId}" },\n  readPart: { method: "GET", path: "/v1/parts/{partId}" }\n}`
  )

  it("name codes that are of one operation alone", () => {
    const document = documentOf({
      operation: {
        responses: { 200: json(ref("Part")), 400: json({ oneOf: [ref("BrokenError"), ref("LateError")] }) }
      },
      schemas: { LateError: object({ code: { type: "string", const: "late" }, details: { type: "object" } }) }
    })

    assert.include(generate(document), `readonly code: CommonCode | "late"`)
  })

  it("are not made of what this generator does not understand", () => {
    const kinds: ReadonlyArray<readonly [Parameters<typeof documentOf>[0], RegExp]> = [
      [{ schemas: { Part: object({ odd: { type: "tuple" } }) } }, /does not know: \{"type":"tuple"\}/],
      [
        { schemas: { OtherMovedData: object({ object: { type: "string", const: "part" } }) } },
        /OtherMovedData does not begin with the object/
      ],
      [{ operation: { responses: { 409: json(ref("BrokenError")) } } }, /makePart never succeeds/]
    ]
    for (const [overrides, says] of kinds) assert.throws(() => generate(documentOf(overrides)), says)
  })
})
