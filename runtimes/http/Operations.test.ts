import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { HttpServerRequest } from "effect/http"
import { operations } from "./Operations.ts"

describe("A query", () => {
  it("costs as much for each parameter, however often one of them is given", () => {
    const operation = operations.find(({ name }) => name === "listMessages")!
    const url = `http://localhost/v1/messages?limit=7&${"x&".repeat(32_000)}`

    const request = HttpServerRequest.fromWeb(new Request(url))
    const input = operation.decode({ request, params: {}, text: null })

    assert.deepInclude(Result.getOrThrow(input), { query: { limit: 7 } })
  })
})
