import { suite } from "../../conformance/Scanner.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as EicarScanner from "./EicarScanner.ts"

conforms("EicarScanner", suite({ infected: EicarScanner.testFile }), EicarScanner.layer)
