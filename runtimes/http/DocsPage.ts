/**
 * The docs page: the published document as one static page of HTML. It asks
 * for nothing else, from us or from anybody, and runs no script, so it works
 * offline and under the strictest policy.
 */
import { operationsOf, type Document, type Node, type OperationObject, type WebhookObject } from "./Document.ts"
import { catalogue, codes, schemaName } from "./ErrorBody.ts"

/** Styles stand in the page; nothing else is allowed. */
export const contentSecurityPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const escapeHtml = (text: string): string =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;")

/** Code in backticks and bold in asterisks; all else as it is. */
const inline = (text: string): string =>
  escapeHtml(text)
    .replace(/`([^`]+)`/g, "<code>$1</code>")
    .replace(/\*\*([^*]+)\*\*/g, "<strong>$1</strong>")

/** Paragraphs and lists. */
const prose = (text: string): string =>
  text
    .split("\n\n")
    .map((block) =>
      block.startsWith("- ")
        ? `<ul>${block.slice(2).split("\n- ").map((item) => `<li>${inline(item)}</li>`).join("")}</ul>`
        : `<p>${inline(block)}</p>`
    )
    .join("")

const table = (headings: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  `<table><thead><tr>${headings.map((heading) => `<th>${heading}</th>`).join("")}</tr></thead><tbody>${rows
    .map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`)
    .join("")}</tbody></table>`

const code = (text: string): string => `<code>${escapeHtml(text)}</code>`

const example = (value: unknown): string => `<pre>${escapeHtml(JSON.stringify(value, null, 2))}</pre>`

/** A schema's type in few words, with links to the schemas it names. */
const typeOf = (schema: Node): string => {
  if (typeof schema["$ref"] === "string") {
    const name = schema["$ref"].slice("#/components/schemas/".length)
    return `<a href="#schema-${name}">${name}</a>`
  }
  const members = nodes(schema["anyOf"])
  if (members.length > 0) return members.map(typeOf).join(" | ")
  if (schema["const"] !== undefined) return code(JSON.stringify(schema["const"]))
  if (Array.isArray(schema["enum"])) return schema["enum"].map((value) => code(JSON.stringify(value))).join(" | ")
  if (schema["type"] === "array") return `array of ${typeOf(node(schema["items"]))}`
  const properties = Object.entries(node(schema["properties"]))
  if (properties.length > 0) {
    return `{ ${properties.map(([name, inner]) => `${code(name)}: ${typeOf(node(inner))}`).join(", ")} }`
  }
  return escapeHtml([schema["type"], schema["format"]].filter((word) => typeof word === "string").join(", "))
}

const bounds: Readonly<Record<string, string>> = {
  minimum: "at least",
  maximum: "at most",
  minLength: "characters, at least",
  maxLength: "characters, at most",
  minItems: "items, at least",
  maxItems: "items, at most",
  default: "default"
}

/** The bounds of a schema, also of what it is one of. */
const rules = (schema: Node): string =>
  [schema, ...nodes(schema["anyOf"])]
    .flatMap((one) =>
      Object.entries(bounds).flatMap(([name, words]) => (name in one ? [`${words} ${code(JSON.stringify(one[name]))}`] : []))
    )
    .join("; ")

// The document is ours: what is read as an object or a list of them is one, or is absent.
const node = (value: unknown): Node => (value ?? {}) as Node
const nodes = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? (value as ReadonlyArray<Node>) : [])

const describe = (schema: Node): string => {
  const texts = [typeof schema["description"] === "string" ? inline(schema["description"]) : "", rules(schema)]
  return texts.filter((text) => text !== "").join(" ")
}

const membersOf = (schema: Node): string => {
  const required = new Set(nodes(schema["required"]) as ReadonlyArray<unknown>)
  return table(
    ["member", "type", "required", ""],
    Object.entries(node(schema["properties"])).map(([name, inner]) => [
      code(name),
      typeOf(node(inner)),
      required.has(name) ? "yes" : "no",
      describe(node(inner))
    ])
  )
}

/** A call that works when pasted, once the key and the ids are one's own. */
const curl = (server: string, method: string, path: string, operation: OperationObject): string => {
  const variable = (name: string) => `$${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
  const url = `${server}${path.replace(/\{(\w+)\}/g, (_, name: string) => variable(name))}`
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}"${url}"`, `-H "Authorization: Bearer $API_KEY"`]
  const isIdempotent = operation.parameters?.some(({ name }) => name === "Idempotency-Key") === true
  if (isIdempotent) lines.push(`-H "Idempotency-Key: send-$(date +%s)"`)
  const body = operation.requestBody?.content["application/json"].example
  if (body !== undefined) lines.push(`-H "Content-Type: application/json"`, `-d '${JSON.stringify(body)}'`)
  return `<pre>${escapeHtml(lines.join(" \\\n  "))}</pre>`
}

const operationSection = (server: string, method: string, path: string, operation: OperationObject): string => {
  const body = operation.requestBody?.content["application/json"].schema
  const [success] = Object.entries(operation.responses).filter(([status]) => Number(status) < 400)
  const refusals = Object.entries(operation.responses)
    .filter(([status]) => Number(status) >= 400)
    .map(([status, { content }]) => [status, codesOf(content["application/json"].schema)])
  const parameters = (operation.parameters ?? []).map(({ name, in: where, required, description, schema }) => [
    code(name),
    where,
    typeOf(schema),
    required ? "yes" : "no",
    [inline(description), rules(schema)].filter((text) => text !== "").join(" ")
  ])
  return [
    `<section id="${operation.operationId}"><h3>${escapeHtml(operation.summary)}</h3>`,
    `<p class="line"><b>${method}</b> ${code(path)} <span>${operation.operationId}</span></p>`,
    prose(operation.description),
    curl(server, method, path, operation),
    parameters.length === 0 ? "" : `<h4>Parameters</h4>${table(["name", "in", "type", "required", ""], parameters)}`,
    body === undefined ? "" : `<h4>Body</h4><p>${typeOf(body)}</p>`,
    `<h4>Answer</h4><p>${success![0]} ${typeOf(success![1].content["application/json"].schema)}</p>`,
    example(success![1].content["application/json"].example),
    `<details><summary>Errors</summary>${table(["status", "code"], refusals)}</details>`,
    "</section>"
  ].join("\n")
}

/** A request that we make: not a call, so there is no curl. */
const webhookSection = (name: string, webhook: WebhookObject): string => {
  const { schema, example: body } = webhook.requestBody.content["application/json"]
  const headers = (webhook.parameters ?? []).map((one) => [code(one.name), inline(one.description)])
  const answers = Object.entries(webhook.responses).map(([status, { description }]) => [code(status), inline(description)])
  const types = nodes(schema["anyOf"]).flatMap(({ title, allOf }) => {
    const data = node(node(nodes(allOf)[1])["properties"])["data"]
    return typeof title === "string" ? [[code(title), typeOf(node(data))]] : []
  })
  return [
    `<section id="webhook-${name}"><h3>${escapeHtml(webhook.summary)}</h3>`,
    `<p class="line"><b>POST</b> to your endpoint <span>${name}</span></p>`,
    prose(webhook.description),
    headers.length === 0 ? "" : `<h4>Headers</h4>${table(["name", ""], headers)}`,
    `<h4>Body</h4>${types.length === 0 ? `<p>${typeOf(schema)}</p>` : table(["type", "data"], types)}`,
    example(body),
    `<h4>Your answer</h4>${table(["status", ""], answers)}`,
    "</section>"
  ].join("\n")
}

const codesOf = (schema: Node): string => {
  const refs = nodes(schema["oneOf"]).length > 0 ? nodes(schema["oneOf"]) : [schema]
  return codes
    .filter((name) => refs.some((ref) => ref["$ref"] === `#/components/schemas/${schemaName(name)}`))
    .map((name) => `<a href="#error-${name}">${code(name)}</a>`)
    .join(", ")
}

const style = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
code,pre{font:14px/1.45 ui-monospace,monospace}
pre{padding:.75rem;overflow:auto;border:1px solid #8886;border-radius:6px}
table{border-collapse:collapse;width:100%;display:block;overflow:auto}
td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884}
section{border-top:1px solid #8886;margin-top:2rem}.line span{opacity:.7}nav ul{columns:2}`

const link = (to: string, text: string): string => `<li><a href="${to}">${escapeHtml(text)}</a></li>`

/** The page, for the first of the document's addresses. */
export const render = (document: Document): string => {
  const operations = operationsOf(document)
  const server = document.servers[0]?.url ?? ""
  const errors = new Set(["Error", ...codes.map(schemaName)])
  const schemas = Object.entries(document.components.schemas).filter(([name]) => !errors.has(name))
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(document.info.title)}</title><style>${style}</style></head><body>
<h1>${escapeHtml(document.info.title)} <small>${document.info.version}</small></h1>
${prose(document.info.description)}
<p>The contract: <a href="openapi.yaml">/openapi.yaml</a> (OpenAPI 3.1).</p>
<nav><ul>${operations.map(({ operation }) => link(`#${operation.operationId}`, operation.summary)).join("")}
${link("#webhooks", "What an endpoint gets")}<li><a href="#schemas">Schemas</a></li><li><a href="#errors">Errors</a></li></ul></nav>
${document.tags.map(({ name, description }) => `<h2>${escapeHtml(name)}</h2><p>${inline(description)}</p>\n${operations
    .filter(({ operation }) => operation.tags.includes(name))
    .map(({ method, path, operation }) => operationSection(server, method, path, operation))
    .join("\n")}`).join("\n")}
<h2 id="webhooks">What an endpoint gets</h2>
${Object.entries(document.webhooks).map(([name, { post }]) => webhookSection(name, post)).join("\n")}
<h2 id="schemas">Schemas</h2>
${schemas.map(([name, schema]) => `<section id="schema-${name}"><h3>${name}</h3>${membersOf(schema)}</section>`).join("\n")}
<h2 id="errors">Errors</h2>
${table(
  ["status", "code", "meaning", "what to do", "details"],
  codes.map((name) => {
    const { status, meaning, remedy, details } = catalogue[name]
    return [
      String(status),
      `<span id="error-${name}">${code(name)}</span>`,
      inline(meaning),
      inline(remedy),
      Object.keys(details.fields).map(code).join(", ")
    ]
  })
)}
</body></html>
`
}
