import * as Mime from "../../conformance/Mime.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as NodemailerMime from "./NodemailerMime.ts"

conforms("NodemailerMime", Mime.suite, NodemailerMime.layer)
