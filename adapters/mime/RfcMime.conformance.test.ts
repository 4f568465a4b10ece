import * as Mime from "../../conformance/Mime.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as RfcMime from "./RfcMime.ts"

conforms("RfcMime", Mime.suite, RfcMime.layer)
