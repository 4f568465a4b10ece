/** The black-box suite: proves any deployment over HTTP, with nothing of the house but what is on the wire. */
export {
  codeOf,
  type Exchange,
  type ReceivedRequest,
  type Receiver,
  type ReceiverAnswer,
  type Reply,
  ScopesMissing,
  type Target
} from "./Deployment.ts"
export type { HttpCheck, HttpSuite } from "./HttpCheck.ts"
export { nameOf, toText } from "./Report.ts"
export {
  KeyRefused,
  NothingToRun,
  type Options,
  type Progress,
  type Report,
  type Result,
  run,
  suites,
  Unreachable
} from "./Run.ts"
