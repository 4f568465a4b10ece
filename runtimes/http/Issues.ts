/**
 * What is wrong with a request, one entry for each fault: where (a JSON
 * Pointer), what kind (a stable code), and a sentence for a person. Made of a
 * schema's findings, or found in the bytes before there is anything to decode.
 */
import { Schema, SchemaIssue } from "effect"

export const Issue = Schema.Struct({
  path: Schema.String.annotate({
    description: "A JSON Pointer (RFC 6901) to the faulty member, or a slash and the name of a parameter; empty for the whole."
  }),
  code: Schema.Literals([
    "required",
    "unknown_member",
    "duplicate_member",
    "wrong_type",
    "invalid_value",
    "invalid_text",
    "too_many",
    "too_deep",
    "empty_body",
    "malformed_json",
    "malformed_http"
  ]).annotate({ description: "The kind of fault. Expect more kinds." }),
  message: Schema.String
})
export type Issue = typeof Issue.Type

/** A body of hundreds of faults gets this many of them named. */
const issuesMax = 100

/** A schema's findings, in the order of the schema. */
export const fromSchema = (issue: SchemaIssue.Issue): ReadonlyArray<Issue> => walk(issue, []).slice(0, issuesMax)

/** The findings of a query's schema: a parameter is text, unless it was given more than once. */
export const fromQuery = (issue: SchemaIssue.Issue): ReadonlyArray<Issue> =>
  fromSchema(issue).map((one) =>
    one.code === "wrong_type" ? { path: one.path, code: "duplicate_member", message: "Expected this parameter once" } : one
  )

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (leaf) => {
    if (leaf._tag === "MissingKey") return "Expected this member"
    return leaf._tag === "UnexpectedKey" ? "Expected no such member" : SchemaIssue.defaultLeafHook(leaf)
  }
})

const walk = (issue: SchemaIssue.Issue, path: ReadonlyArray<PropertyKey>): ReadonlyArray<Issue> => {
  switch (issue._tag) {
    case "Pointer":
      return walk(issue.issue, [...path, ...issue.path])
    case "Encoding":
      return walk(issue.issue, path)
    case "Composite":
      return issue.issues.flatMap((inner) => walk(inner, path))
    case "AnyOf":
      return issue.issues.length > 0 ? issue.issues.flatMap((inner) => walk(inner, path)) : found(issue, path)
    default:
      return found(issue, path)
  }
}

const found = (issue: SchemaIssue.Issue, path: ReadonlyArray<PropertyKey>): ReadonlyArray<Issue> =>
  format(issue).issues.map(({ path: inner = [], message }) => ({
    path: pointer([...path, ...inner.map((part) => (typeof part === "object" ? part.key : part))]),
    code: codeOf(issue),
    message
  }))

const codeOf = (issue: SchemaIssue.Issue): Issue["code"] => {
  switch (issue._tag) {
    case "MissingKey":
      return "required"
    case "UnexpectedKey":
      return "unknown_member"
    case "InvalidType":
      return "wrong_type"
    case "AnyOf":
      return issue.ast.types.every((member) => member._tag === "Literal") ? "invalid_value" : "wrong_type"
    default:
      return "invalid_value"
  }
}

/** A member name as a token of a JSON Pointer. */
export const escapePointer = (name: string): string => name.replace(/~/g, "~0").replace(/\//g, "~1")

const pointer = (path: ReadonlyArray<PropertyKey>): string =>
  path.map((part) => `/${escapePointer(String(part))}`).join("")
