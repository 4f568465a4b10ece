/**
 * Writes `Contract.ts` from the published OpenAPI document: what each operation
 * takes, answers and can be refused with, as TypeScript. `npm run docs` runs
 * it, and a test compares. What a request may hold is closed; the vocabularies
 * of answers stay open, as the service may add to them (Spec 9).
 */

/** A JSON Schema, as far as the document uses it. */
interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly const?: unknown
  readonly enum?: ReadonlyArray<string>
  readonly anyOf?: ReadonlyArray<Schema>
  /** What must hold beside the rest: one of some. */
  readonly allOf?: ReadonlyArray<Schema>
  readonly oneOf?: ReadonlyArray<Schema>
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: ReadonlyArray<string>
  readonly format?: string
  readonly description?: string
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
}

interface Content {
  readonly content: { readonly "application/json": { readonly schema: Schema } }
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly description: string
  readonly schema: Schema
}

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly parameters?: ReadonlyArray<Parameter>
  readonly requestBody?: Content
  readonly responses: Readonly<Record<string, Content>>
}

/** What is read of the document. */
export interface Document {
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

type Schemas = Readonly<Record<string, Schema>>

interface Located {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

/** The text of `Contract.ts`. */
export const generate = (document: Document): string => {
  const schemas = document.components.schemas as Schemas // a document's components are schemas
  const located = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): Located => ({ method: method.toUpperCase(), path, operation }))
  )
  const operations = located.map(({ operation }) => operation)
  const bodies = operations.flatMap(({ requestBody }) => (requestBody === undefined ? [] : refsOf(schemaOf(requestBody))))
  const taken = reachable(bodies, schemas)
  const entries = Object.entries(schemas)
  const errors = entries.filter(([, schema]) => codeOf(schema) !== undefined)
  const data = entries.filter(([name]) => name.endsWith("Data"))
  const events = entries.filter(([, { properties }]) => properties?.["data"] && properties["type"]?.const === undefined)
  const apart = new Set(["Error", ...[...errors, ...data, ...events].map(([name]) => name)])
  const resources = entries.filter(([name]) => !apart.has(name))
  return [
    header(document.info.version),
    ...resources.map(([name, schema]) => declaration(name, schema, taken.has(name) ? closed : open)),
    ...data.map(([name, schema]) => declaration(name, schema, open)),
    record("EventData", "`data` of each type of event.", data.map(([name, schema]) => [eventType(name, schema), "", name])),
    otherEventType,
    ...events.map(([name, schema]) => eventDeclaration(name, schema)),
    errorDetails(errors, operations),
    ...operationTypes(operations, schemas),
    routesOf(located)
  ].join("\n\n") + "\n"
}

const header = (version: string): string => `/**
 * The published contract (\`/openapi.yaml\`, version ${version}) as types, and where each operation is.
 * Written by \`npm run docs\`; not edited by hand.
 */

/** A UUID. */
export type Uuid = string

/** A moment, ISO 8601. */
export type DateTime = string

/** The values known today. Expect others: answers may come to hold more. */
export type Open<Known extends string> = Known | (string & {})`

/** How values of a request, and of an answer, are written down. */
interface Style {
  readonly vocabulary: (values: string) => string
  /** Behind the type of an optional member: undefined is as good as absent in a request, and never comes in an answer. */
  readonly optional: string
}
const closed: Style = { vocabulary: (values) => values, optional: " | undefined" }
const open: Style = { vocabulary: (values) => `Open<${values}>`, optional: "" }

const declaration = (name: string, schema: Schema, style: Style): string => {
  const alternatives = (schema.allOf ?? []).flatMap(({ anyOf }) => anyOf ?? [])
  const body = objectType(schema, style, "")
  if (alternatives.length === 0) return `${comment(schema.description ?? "")}export interface ${name} ${body}`
  const choices = alternatives.map((one) => {
    const members = (one.required ?? []).map((member) => {
      const inner = one.properties?.[member] ?? schema.properties?.[member] ?? {}
      return `readonly ${memberName(member)}: ${typeOf(inner, style, "")}`
    })
    return `{ ${members.join("; ")} }`
  })
  return `${comment(schema.description ?? "")}export type ${name} = ${body} & (${choices.join(" | ")})`
}
const objectType = ({ properties = {}, required = [] }: Schema, style: Style, indent: string): string => {
  const inner = `${indent}  `
  const members = Object.entries(properties).map(([name, schema]) => {
    const isRequired = required.includes(name)
    const type = `${typeOf(schema, style, inner)}${isRequired ? "" : style.optional}`
    return `${comment(remark(schema, style), inner)}${inner}readonly ${memberName(name)}${isRequired ? "" : "?"}: ${type}`
  })
  return members.length === 0 ? "Readonly<Record<string, unknown>>" : `{\n${members.join("\n")}\n${indent}}`
}

const typeOf = (schema: Schema, style: Style, indent: string): string => {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return style.vocabulary(schema.enum.map((value) => JSON.stringify(value)).join(" | "))
  const alternatives = schema.anyOf ?? schema.oneOf
  if (alternatives !== undefined) return alternatives.map((one) => typeOf(one, style, indent)).join(" | ")
  switch (schema.type) {
    case "string":
      return schema.format === "uuid" ? "Uuid" : schema.format === "date-time" ? "DateTime" : "string"
    case "integer":
    case "number":
      return "number"
    case "boolean":
    case "null":
      return schema.type
    case "array":
      return `ReadonlyArray<${typeOf(schema.items ?? {}, style, indent)}>`
    case "object":
      return objectType(schema, style, indent)
    default:
      throw new Error(`A schema that this generator does not know: ${JSON.stringify(schema)}`)
  }
}

/** What the type cannot say: the description, and the limits of a request. */
const remark = (schema: Schema, style: Style): string => {
  const inner = schema.anyOf?.find(({ type }) => type !== "null") ?? schema
  const limits = [
    range(inner.minItems, inner.maxItems, " items"),
    range(inner.minLength, inner.maxLength, " characters"),
    range(inner.minimum, inner.maximum, "")
  ]
  const fallback = schema.default === undefined ? "" : `Default: \`${JSON.stringify(schema.default)}\`.`
  const texts = [schema.description ?? "", ...(style === closed ? limits : []), fallback]
  return texts.filter((text) => text !== "").join(" ")
}

const range = (least: number | undefined, most: number | undefined, unit: string): string => {
  if (most === undefined) return ""
  return `${least === undefined ? "At most" : `${least} to`} ${most.toLocaleString("en")}${unit}.`
}

/** `MessageBouncedData` is the data of `message.bounced`: the object, and then what happened to it. */
const eventType = (name: string, { properties }: Schema): string => {
  const object = String(properties?.["object"]?.const)
  const [first, ...rest] = (name.slice(0, -"Data".length).match(/[A-Z][a-z]*/g) ?? []).map((part) => part.toLowerCase())
  if (first !== object || rest.length === 0) {
    throw new Error(`${name} does not begin with the object that it is of: ${object}`)
  }
  return `${object}.${rest.join("_")}`
}

const otherEventType = `declare const other: unique symbol

/** A type of event that this version of the client does not know. Compare and print it as the string that it is. */
export type OtherEventType = \`\${string}.\${string}\` & { readonly [other]: true }`

/** Of these, two members depend on each other, which JSON Schema says in words: by `type`, what `data` holds. */
const eventDeclaration = (name: string, schema: Schema): string => {
  const properties = { ...schema.properties, type: { $ref: "/Type" }, data: { $ref: "/Data" } }
  return `/** One {@link ${name}}, with data of one type. */
export interface ${name}Of<Type extends string, Data> ${objectType({ ...schema, properties }, open, "")}

/** ${schema.description ?? "An event."} Told apart by \`type\`; let types that you do not know pass. */
export type ${name} =
  | { [Type in keyof EventData]: ${name}Of<Type, EventData[Type]> }[keyof EventData]
  | ${name}Of<OtherEventType, Readonly<Record<string, unknown>>>`
}

/** The code that a schema is the error of. */
const codeOf = ({ properties }: Schema): unknown => (properties?.["details"] ? properties["code"]?.const : undefined)

const errorDetails = (errors: ReadonlyArray<readonly [string, Schema]>, operations: ReadonlyArray<Operation>): string => {
  const statuses = new Map(
    operations.flatMap(({ responses }) =>
      Object.entries(responses).flatMap(([status, response]) =>
        refsOf(schemaOf(response)).map((name) => [name, status] as const)
      )
    )
  )
  const rows = errors.map(([name, schema]): Row => {
    const about = `${statuses.get(name) ?? ""}: ${schema.description ?? ""}`.replace(/^(default)?: /, "")
    return [String(codeOf(schema)), about, typeOf(schema.properties!["details"]!, open, "  ")]
  })
  return record("ErrorDetails", "`details` of an error, by its `code`.", rows)
}

const operationTypes = (operations: ReadonlyArray<Operation>, schemas: Schemas): ReadonlyArray<string> => {
  const all = operations.map((operation) => codesOf(operation, schemas))
  const common = all[0]!.filter((code) => all.every((codes) => codes.includes(code)))
  const about = "What each operation takes, what it answers, and the codes that it can be refused with."
  const rows = operations.map((operation, index) =>
    operationRow(operation, all[index]!.filter((code) => !common.includes(code)))
  )
  const union = common.map((code) => `  | ${code}`).join("\n")
  return [
    `/** What every operation can be refused with. */\nexport type CommonCode =\n${union}`,
    record("Operations", about, rows),
    "/** The name of an operation. */\nexport type Operation = keyof Operations"
  ]
}

const operationRow = (operation: Operation, codes: ReadonlyArray<string>): Row => {
  const query = (operation.parameters ?? []).filter((parameter) => parameter.in === "query")
  const asSchema: Schema = {
    properties: Object.fromEntries(query.map(({ name, schema, description }) => [name, { ...schema, description }])),
    required: query.filter(({ required }) => required).map(({ name }) => name)
  }
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith("2"))
  if (success === undefined) throw new Error(`${operation.operationId} never succeeds`)
  const indent = "    "
  const members = [
    ...(query.length === 0 ? [] : [`query: ${objectType(asSchema, closed, indent)}`]),
    ...(operation.requestBody === undefined ? [] : [`input: ${typeOf(schemaOf(operation.requestBody), closed, indent)}`]),
    `output: ${typeOf(schemaOf(success[1]), open, indent)}`,
    `code: ${["CommonCode", ...codes].join(" | ")}`
  ]
  const text = members.map((member) => `${indent}readonly ${member}`).join("\n")
  return [operation.operationId, `${operation.summary}.\n\n${operation.description}`, `{\n${text}\n  }`]
}

/** The codes that an operation can be refused with, as literals. */
const codesOf = ({ responses }: Operation, schemas: Schemas): ReadonlyArray<string> =>
  Object.values(responses)
    .flatMap((response) => refsOf(schemaOf(response)))
    .flatMap((name) => codeOf(schemas[name] ?? {}) ?? [])
    .map((code) => JSON.stringify(code))

const routesOf = (located: ReadonlyArray<Located>): string => {
  const rows = located.map(
    ({ method, path, operation }) => `  ${operation.operationId}: { method: "${method}", path: "${path}" }`
  )
  return [
    "/** Where each operation is. */",
    "export const routes = {",
    rows.join(",\n"),
    "} as const satisfies Readonly<Record<Operation, { readonly method: string; readonly path: string }>>"
  ].join("\n")
}

type Row = readonly [name: string, text: string, type: string]

const record = (name: string, text: string, rows: ReadonlyArray<Row>): string =>
  [
    `${comment(text)}export interface ${name} {`,
    ...rows.map(([member, about, type]) => `${comment(about, "  ")}  readonly ${memberName(member)}: ${type}`),
    "}"
  ].join("\n")

const comment = (text: string, indent = ""): string => {
  if (text === "") return ""
  const lines = text.replaceAll("*/", "*\\/").split("\n")
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n")}\n${indent} */\n`
}

const memberName = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name))

const schemaOf = ({ content }: Content): Schema => content["application/json"].schema

const nameOf = (ref: string): string => ref.slice(ref.lastIndexOf("/") + 1)

/** The components that a schema points at. */
const refsOf = (schema: Schema): ReadonlyArray<string> =>
  [...JSON.stringify(schema).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => nameOf(match[1]!))

/** These components, and those that they are made of. */
const reachable = (names: ReadonlyArray<string>, schemas: Schemas): ReadonlySet<string> => {
  const found = new Set<string>()
  const visit = (name: string): void => {
    if (found.has(name)) return
    found.add(name)
    for (const next of refsOf(schemas[name] ?? {})) visit(next)
  }
  for (const name of names) visit(name)
  return found
}
