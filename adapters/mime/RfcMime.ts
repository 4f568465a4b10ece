/** Mime by the RFCs: written by encoders of its own, read with postal-mime's understanding of headers and characters. */
import { Layer } from "effect"
import { Mime } from "../../core/ports/Mime.ts"
import { read, readHead } from "./MimeReader.ts"
import { write } from "./MimeWriter.ts"

export const layer: Layer.Layer<Mime> = Layer.succeed(Mime, { build: write, parse: read, readHead })
