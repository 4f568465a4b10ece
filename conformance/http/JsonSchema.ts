/**
 * As much of JSON Schema (2020-12) as an OpenAPI document uses to say what
 * answers look like. A keyword that is not known here says nothing, as the
 * standard wants it of annotations.
 */
import { dateTimePattern, uuidPattern } from "./Shapes.ts"

type Node = Readonly<Record<string, unknown>>

/** Looks up a reference in the document that the schema stands in. */
export type Resolve = (reference: string) => unknown

/** What is wrong with a value, each fault with the JSON Pointer to its place; none: it fits. */
export const faultsOf = (schema: unknown, value: unknown, resolve: Resolve, at = ""): ReadonlyArray<string> => {
  if (schema === true || schema === undefined) return []
  if (!isNode(schema)) return [`${at}: nothing is allowed here`]
  const inner = (next: unknown, of: unknown = value, where = at) => faultsOf(next, of, resolve, where)
  const { $ref, type, enum: values, allOf, anyOf, oneOf } = schema
  const faults: Array<string> = []
  if (typeof $ref === "string") {
    const meant = resolve($ref)
    faults.push(...(meant === undefined ? [`${at}: the document has no ${$ref}`] : inner(meant)))
  }
  if (type !== undefined && ![type].flat().some((name) => isOfType(name, value))) {
    return [...faults, `${at}: expected ${[type].flat().join(" or ")}`]
  }
  if (Array.isArray(values) && !values.some((one) => isEqual(one, value))) {
    faults.push(`${at}: expected one of ${JSON.stringify(values)}`)
  }
  if ("const" in schema && !isEqual(schema["const"], value)) {
    faults.push(`${at}: expected ${JSON.stringify(schema["const"])}`)
  }
  if (Array.isArray(allOf)) faults.push(...allOf.flatMap((one) => inner(one)))
  faults.push(...alternatives(anyOf, oneOf, at, (one) => inner(one)))
  if (typeof value === "string") faults.push(...textFaults(schema, value, at))
  if (typeof value === "number") faults.push(...numberFaults(schema, value, at))
  if (Array.isArray(value)) faults.push(...listFaults(schema, value, at, inner))
  else if (isNode(value)) faults.push(...objectFaults(schema, value, at, inner))
  return faults
}

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value)

const isEqual = (left: unknown, right: unknown): boolean => JSON.stringify(left) === JSON.stringify(right)

const isOfType = (type: unknown, value: unknown): boolean => {
  switch (type) {
    case "null":
      return value === null
    case "array":
      return Array.isArray(value)
    case "object":
      return isNode(value)
    case "integer":
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}

const alternatives = (
  anyOf: unknown,
  oneOf: unknown,
  at: string,
  judge: (schema: unknown) => ReadonlyArray<string>
): ReadonlyArray<string> => {
  const faults: Array<string> = []
  if (Array.isArray(anyOf)) {
    const found = anyOf.map(judge)
    if (!found.some((one) => one.length === 0)) faults.push(`${at}: fits none of ${anyOf.length} (${nearest(found)})`)
  }
  if (Array.isArray(oneOf)) {
    const found = oneOf.map(judge)
    const fitting = found.filter((one) => one.length === 0).length
    if (fitting !== 1) {
      faults.push(
        `${at}: fits ${fitting} of ${oneOf.length}, where it must fit one${fitting === 0 ? ` (${nearest(found)})` : ""}`
      )
    }
  }
  return faults
}

/** What is wrong with the alternative that was meant, which is likely the one with the fewest faults. */
const nearest = (found: ReadonlyArray<ReadonlyArray<string>>): string =>
  found.toSorted((left, right) => left.length - right.length)[0]?.join("; ") ?? "there are none"

const formats: Readonly<Record<string, RegExp>> = {
  uuid: uuidPattern,
  "date-time": dateTimePattern,
  uri: /^[a-z][a-z0-9+.-]*:\S+$/i,
  email: /^[^@\s]+@[^@\s]+$/
}

const textFaults = (
  { minLength, maxLength, pattern, format }: Node,
  value: string,
  at: string
): ReadonlyArray<string> => {
  const length = [...value].length
  return [
    ...(typeof minLength === "number" && length < minLength ?
      [`${at}: expected at least ${minLength} characters`] :
      []),
    ...(typeof maxLength === "number" && length > maxLength ? [`${at}: expected at most ${maxLength} characters`] : []),
    ...(typeof pattern === "string" && !new RegExp(pattern, "u").test(value) ? [`${at}: expected ${pattern}`] : []),
    ...(typeof format === "string" && formats[format]?.test(value) === false ? [`${at}: expected a ${format}`] : [])
  ]
}

const numberFaults = (
  { minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Node,
  value: number,
  at: string
): ReadonlyArray<string> => {
  const isBelow = (typeof minimum === "number" && value < minimum) ||
    (typeof exclusiveMinimum === "number" && value <= exclusiveMinimum)
  const isAbove = (typeof maximum === "number" && value > maximum) ||
    (typeof exclusiveMaximum === "number" && value >= exclusiveMaximum)
  return isBelow || isAbove ? [`${at}: ${value} is out of range`] : []
}

type Inner = (schema: unknown, value: unknown, at: string) => ReadonlyArray<string>

const listFaults = (
  { items, prefixItems, minItems, maxItems }: Node,
  value: ReadonlyArray<unknown>,
  at: string,
  inner: Inner
): ReadonlyArray<string> => {
  const prefix = Array.isArray(prefixItems) ? prefixItems : []
  return [
    ...(typeof minItems === "number" && value.length < minItems ? [`${at}: expected at least ${minItems} items`] : []),
    ...(typeof maxItems === "number" && value.length > maxItems ? [`${at}: expected at most ${maxItems} items`] : []),
    ...value.flatMap((item, index) => inner(index < prefix.length ? prefix[index] : items, item, `${at}/${index}`))
  ]
}

const objectFaults = (
  { properties, required, additionalProperties }: Node,
  value: Node,
  at: string,
  inner: Inner
): ReadonlyArray<string> => {
  const known = isNode(properties) ? properties : {}
  const missing = Array.isArray(required) ?
    required.filter((name) => typeof name === "string" && !Object.hasOwn(value, name)) :
    []
  return [
    ...missing.map((name) => `${at}/${String(name)}: is missing`),
    ...Object.entries(value).flatMap(([name, one]) => {
      const where = `${at}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`
      if (Object.hasOwn(known, name)) return inner(known[name], one, where)
      return additionalProperties === false ? [`${where}: is no member of it`] : inner(additionalProperties, one, where)
    })
  ]
}
