/** What JavaScript may call otherwise: options, and the parameters of a query. */

/** Under another name a member would be passed over: an idempotency key, and a message is sent twice. */
export const checkNames = (what: string, known: Readonly<Record<string, true>>, given: object): void => {
  const names = Object.keys(known).join(", ")
  if (typeof given !== "object" || given === null) throw new TypeError(`${what} must be an object: ${names}.`)
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(known, name))
  if (unknown !== undefined) throw new TypeError(`${JSON.stringify(unknown)} is none of ${what}: ${names}.`)
}
