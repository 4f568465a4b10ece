/** What a program in JavaScript may give to `createMailroom` by mistake, and what it is told. */
import { assert, describe, it } from "@effect/vitest"
import { Layer } from "effect"
import { inspect } from "node:util"
import { defaults } from "../../core/Settings.ts"
import { read, type Options } from "./Options.ts"

const adapter = Layer.empty as never // nobody builds it
const whole: Options = {
  store: adapter,
  queue: adapter,
  blobs: adapter,
  crypto: adapter,
  mime: adapter,
  scanner: adapter,
  webhooks: adapter,
  provider: null
}

const faulty: ReadonlyArray<readonly [options: Record<string, unknown>, fault: RegExp]> = [
  [{ settings: { deliveryBackoff: [] } }, /^settings\.deliveryBackoff is \[\]; it wants one to four waits in milliseconds$/],
  [{ settings: { deliveryBackoff: [Number.NaN] } }, /^settings\.deliveryBackoff is \[ NaN \]; it wants/],
  [{ settings: { deliveryBackoff: [-1] } }, /^settings\.deliveryBackoff is .* wants/],
  [{ settings: { deliveryBackoff: [1, 2, 3, 4, 5] } }, /^settings\.deliveryBackoff is .* wants/],
  [{ settings: { deliveryBackoff: 60_000 } }, /^settings\.deliveryBackoff is 60000; it wants/],
  [{ settings: { webhookTargets: { allowHttp: false, allowedBlocks: ["10.0.0.1"] } } }, /^settings\.webhookTargets is .* wants .*10\.0\.0\.0\/8$/],
  [{ settings: { webhookTargets: { allowHttp: true } } }, /^settings\.webhookTargets is .* wants/],
  [{ settings: { ipRequestsPerMinute: -3 } }, /^settings\.ipRequestsPerMinute is -3; it wants a whole number from 1 to 1000000$/],
  [{ settings: { ipRequestsPerMinute: Number.NaN } }, /^settings\.ipRequestsPerMinute is NaN; it wants/],
  [{ settings: { ipRequestsPerMinute: "120" } }, /^settings\.ipRequestsPerMinute is '120'; it wants/],
  [{ settings: { inboundPerMinute: "many" } }, /^settings\.inboundPerMinute is 'many'; it wants a whole number from 1 to 1000000$/],
  [{ settings: { eventRetention: -1 } }, /^settings\.eventRetention is -1; it wants milliseconds; in days, a whole number from 1 to 3650$/],
  [{ settings: { eventRetention: Infinity } }, /^settings\.eventRetention is Infinity; it wants/],
  [{ settings: { messageRetention: 3_600_000 } }, /^settings\.messageRetention is 3600000; it wants milliseconds; in days, a whole number from 1 to 36500, or null$/],
  [{ settings: { messageRetention: "7" } }, /^settings\.messageRetention is '7'; it wants milliseconds/],
  [{ settings: { hostName: "mx.example\r\nX-Evil: 1" } }, /^settings\.hostName is .* wants a host name$/],
  [{ settings: { hostName: "" } }, /^settings\.hostName is ''; it wants a host name$/],
  [{ settings: { mxHost: "not a host" } }, /^settings\.mxHost is 'not a host'; it wants a host name, or null$/],
  [{ settings: { bounceDomain: "" } }, /^settings\.bounceDomain is ''; it wants a domain name, or null$/],
  [{ settings: { postmaster: "nobody" } }, /^settings\.postmaster is 'nobody'; it wants an address such as .ops@mail\.example., or null$/],
  [{ settings: { spf: ["include: x"] } }, /^settings\.spf is .* wants/],
  [{ settings: { dmarcReject: "off" } }, /^settings\.dmarcReject is 'off'; it wants `refuse` or `spam`$/],
  [{ settings: { inboundEnvironment: null } }, /^settings\.inboundEnvironment is null; it wants `sandbox` or `production`$/],
  [{ settings: { ipRequests: 3, toString: 3 } }, /^settings\.ipRequests is no setting, .*\nsettings\.toString is no setting, /],
  [{ settings: 3 }, /^settings is something else; it wants/],
  [{ address: "nonsense" }, /^address is something else; it wants `https:\/\/`/],
  [{ address: "https://api.example.com/mail?a=b" }, /^address is something else; it wants .*without a user or query/],
  [{ store: undefined, provider: undefined }, /^store is not given; it wants an adapter's layer of Store\nprovider is not given; it wants a MailProvider/],
  [{ queue: {} }, /^queue is something else; it wants an adapter's layer of JobQueue$/],
  [{ provider: { submit: () => {} } }, /^provider is something else; it wants/],
  [{ provider: { name: "", submit: () => {}, poll: () => {} } }, /^provider is something else; it wants/],
  [{ limiter: null }, /^limiter is something else; it wants .*, or to be left out$/],
  [{ authenticater: Layer.empty }, /^authenticater is no option of createMailroom, which knows store, /]
]
describe("the options of an embedded Mailroom", () => {
  for (const [options, fault] of faulty) {
    it(`are refused: ${inspect(options, { breakLength: Infinity }).slice(0, 90)}`, () => {
      assert.throws(() => read({ ...whole, ...options }), TypeError, fault)
    })
  }

  it("are refused where there are none", () => {
    assert.throws(() => read(undefined as never), TypeError, /^store is not given; /) // as JavaScript can call it
  })

  it("have defaults that pass their own rules", () => {
    assert.deepStrictEqual(read({ ...whole, settings: defaults }), { settings: defaults, address: "http://mailroom.internal" })
  })
})
