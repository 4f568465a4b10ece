/**
 * The floor of deliveries: undici's `request` posts one signed body over and
 * over, to one receiver or to several in turn, so many in flight, and keeps nothing.
 */
import { createHmac } from "node:crypto"
import { Agent, request } from "undici"

export const post = async (urls: ReadonlyArray<string>, body: string, count: number, inFlight: number): Promise<void> => {
  const dispatcher = new Agent({ connections: inFlight })
  let sent = 0
  const connection = async () => {
    while (sent < count) {
      const url = urls[sent % urls.length]! // the remainder is below its length
      sent += 1
      const timestamp = String(Math.floor(Date.now() / 1000))
      const id = "01990e5c-0000-7000-8000-000000000000"
      const mac = createHmac("sha256", "whsec_reference").update(`${id}.${timestamp}.${body}`).digest("hex")
      const answer = await request(url, {
        dispatcher,
        method: "POST",
        headers: {
          "content-type": "application/json",
          "service-webhook-id": id,
          "service-webhook-timestamp": timestamp,
          "service-webhook-signature": `v1=${mac}`
        },
        body
      })
      await answer.body.dump()
      if (answer.statusCode !== 204) throw new Error(`void: answered ${answer.statusCode}`)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, connection))
  await dispatcher.close()
}
