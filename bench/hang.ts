/**
 * What the other receivers notice of those that hang: fifty endpoints get every
 * event, by the product's own worker over a durable Postgres, and ten of them
 * never answer, so that each attempt there lasts for the deadline of 5 s. Beside
 * it, in the same rounds, the same with none that hangs.
 */
import * as Backlog from "./Backlog.ts"
import * as Deployment from "./Deployment.ts"
import { found } from "./Founding.ts"
import { startReceivers } from "./receiver.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"

/** Events of a round, each for all receivers. */
const events = scale.of(200, 4)
const receiversMax = 50
const hanging = 10
const others = receiversMax - hanging
const delayMs = 20

const product = await Deployment.open({ workers: 1 })
const receivers = await startReceivers(receiversMax)
const backlog = await Backlog.open(product)
let played = 0

/** The rate to those that never hang, on endpoints of their own: ten failures in a row end an endpoint. */
const play = async (isHanging: boolean): Promise<number> => {
  await receivers.behave({ delayMs: 0, hanging: 0 })
  const [caller] = await found(product.variables, `hang-${played++}.example`)
  const subscriber = await backlog.subscribe(caller!, receivers.urls)
  const behaviour = { delayMs, hanging: isHanging ? hanging : 0, uncounted: hanging }
  const { perSecond } = await backlog.drain({ subscriber, events, receivers, behaviour, answered: events * others })
  await receivers.behave({ delayMs: 0, hanging: 0 }) // the rest is not measured
  await backlog.settled(subscriber)
  return perSecond
}

try {
  await turn()
  const rounds = await inRounds(async () => ({ without: await play(false), withHanging: await play(true) }), [() => play(false)])
  report({
    name: "hang",
    about: `${events} events to ${receiversMax} receivers that take ${delayMs} ms, of which ${hanging} hang or none: deliveries a second to the other ${others}.`,
    ratios: [
      {
        path: `${hanging} of ${receiversMax} hang for 5 s: rate to the others / without`,
        better: "higher",
        floor: 0.6,
        goal: 0.85,
        values: ratios(rounds, ({ withHanging }) => withHanging, ({ without }) => without)
      }
    ],
    figures: [
      { name: "none hangs: rate to those 40", unit: "deliveries/s", values: rounds.map(({ without }) => without) },
      { name: `${hanging} hang: rate to the other 40`, unit: "deliveries/s", values: rounds.map(({ withHanging }) => withHanging) }
    ]
  })
} finally {
  receivers.stop()
  await backlog.stop()
  await product.stop()
}
