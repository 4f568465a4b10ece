/** For tests of what a process holds. */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")

/** Collects all that nobody holds any more. What a turn of the event loop held, it holds until that is over. */
export const collect = runInNewContext("gc") as () => void // the flag brings it
