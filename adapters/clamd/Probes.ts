/**
 * Files that tell a clamd that looks from one that only says so. What lies
 * within them is found, or the answer says that it was not looked at; an OK is
 * wrong for all but the first.
 */
import { constants, deflateRawSync } from "node:zlib"
import { attachmentSizeBytesMax } from "../../core/model/Limits.ts"

export interface Probe {
  readonly what: string
  /** Made when wanted: some are large. */
  readonly pieces: () => ReadonlyArray<Uint8Array>
  /** What a clamd says that is set up well. */
  readonly expected: RegExp
  readonly advice: string
}

const found = /^stream: (?!Heuristics\.).+ FOUND$/
const overLimit = /^stream: Heuristics\.Limits\b.* FOUND$/
const encrypted = /^stream: Heuristics\.Encrypted\b.* FOUND$/

const ascii = (text: string): Uint8Array => new TextEncoder().encode(text)

/** In parts, lest a virus scanner take this file away. */
const eicar = ascii(["X5O!P%@AP[4\\PZX54(P^)7CC)7}$", "EICAR-STANDARD-", "ANTIVIRUS-TEST-FILE!", "$H+H*"].join(""))

const kibi = 1_024
const mebi = kibi * kibi
const zeros = new Uint8Array(mebi)

export const sizeOf = (pieces: ReadonlyArray<Uint8Array>): number => pieces.reduce((sum, piece) => sum + piece.length, 0)

/** The head of a file in a tar. */
const tarHead = (name: string, sizeBytes: number): Uint8Array => {
  const head = new Uint8Array(512)
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`
  const put = (at: number, text: string) => head.set(ascii(text), at)
  put(0, name)
  put(100, octal(0o644, 7) + octal(0, 7) + octal(0, 7) + octal(sizeBytes, 11) + octal(0, 11))
  put(148, " ".repeat(8))
  put(156, "0")
  put(257, "ustar")
  put(263, "00")
  put(148, `${octal(head.reduce((sum, byte) => sum + byte), 6)} `)
  return head
}

const tarEnd = zeros.subarray(0, kibi)

/** The end of a tar whose last file is the test file. */
const eicarTail: ReadonlyArray<Uint8Array> = [tarHead("eicar.com", eicar.length), eicar, zeros.subarray(0, 512 - eicar.length), tarEnd]

/** As large as an attachment may be. */
const large = (): ReadonlyArray<Uint8Array> => {
  const fillerSizeBytes = attachmentSizeBytesMax - 512 - sizeOf(eicarTail)
  const filler = Array.from({ length: Math.ceil(fillerSizeBytes / mebi) }, (_, index) =>
    zeros.subarray(0, fillerSizeBytes - index * mebi)
  )
  return [tarHead("filler", fillerSizeBytes), ...filler, ...eicarTail]
}

/** Deeper than `MaxRecursion` can be set. */
const nested = (depth: number): ReadonlyArray<Uint8Array> => {
  let inner: ReadonlyArray<Uint8Array> = [tarHead("a", 0), tarEnd]
  for (let level = 1; level < depth; level++) {
    inner = [tarHead("a.tar", sizeOf(inner)), ...inner, tarEnd]
  }
  return inner
}

/** A zip of one file. Its checksum is not right, which only matters to who unpacks it. */
export const zip = (
  data: ReadonlyArray<Uint8Array>,
  options: { readonly method: 0 | 8; readonly flags: number; readonly unpackedSizeBytes: number }
): ReadonlyArray<Uint8Array> => {
  const name = ascii("a.tar")
  const sizeBytes = sizeOf(data)
  const record = (lengthBytes: number, fill: (view: DataView) => void): Uint8Array => {
    const bytes = new Uint8Array(lengthBytes)
    fill(new DataView(bytes.buffer))
    return bytes
  }
  const describe = (view: DataView, at: number) => {
    view.setUint16(at, 20, true)
    view.setUint16(at + 2, options.flags, true)
    view.setUint16(at + 4, options.method, true)
    view.setUint32(at + 14, sizeBytes, true)
    view.setUint32(at + 18, options.unpackedSizeBytes, true)
    view.setUint16(at + 22, name.length, true)
  }
  const local = record(30, (view) => {
    view.setUint32(0, 0x04034b50, true)
    describe(view, 4)
  })
  const central = record(46, (view) => {
    view.setUint32(0, 0x02014b50, true)
    view.setUint16(4, 20, true)
    describe(view, 6)
  })
  const end = record(22, (view) => {
    view.setUint32(0, 0x06054b50, true)
    view.setUint16(8, 1, true)
    view.setUint16(10, 1, true)
    view.setUint32(12, central.length + name.length, true)
    view.setUint32(16, local.length + name.length + sizeBytes, true)
  })
  return [local, name, ...data, central, name, end]
}

/** A file in a zip, 2 MB that unpack to more than `MaxFileSize` can allow, with the test file behind it all. */
const bomb = (): ReadonlyArray<Uint8Array> => {
  const blocks = 2_049
  const packed = (pieces: ReadonlyArray<Uint8Array>, flush: number) => deflateRawSync(Buffer.concat(pieces), { level: 9, finishFlush: flush })
  const head = packed([tarHead("filler", blocks * mebi)], constants.Z_FULL_FLUSH)
  const block = packed([zeros], constants.Z_FULL_FLUSH)
  const tail = packed(eicarTail, constants.Z_FINISH)
  return zip([head, ...Array.from({ length: blocks }, () => block), tail], {
    method: 8,
    flags: 0,
    unpackedSizeBytes: blocks * mebi + 512 + sizeOf(eicarTail)
  })
}

/** Encrypted as far as its head says, with random-looking bytes for its content. */
const encryptedZip = (): ReadonlyArray<Uint8Array> => {
  const content = Uint8Array.from({ length: 100 }, (_, index) => (index * 89 + 41) % 256)
  return zip([content], { method: 0, flags: 1, unpackedSizeBytes: content.length - 12 })
}

/** It names a password that nobody knows. */
const encryptedPdf = (): ReadonlyArray<Uint8Array> => {
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [] /Count 0 >>",
    `<< /Filter /Standard /V 2 /R 3 /Length 128 /O <${"41".repeat(32)}> /U <${"42".repeat(32)}> /P -4 >>`
  ]
  const id = "<00112233445566778899aabbccddeeff>"
  const body = objects.map((object, index) => `${index + 1} 0 obj\n${object}\nendobj\n`).join("")
  const trailer = `trailer\n<< /Size 4 /Root 1 0 R /Encrypt 3 0 R /ID [${id} ${id}] >>\n`
  return [ascii(`%PDF-1.4\n${body}${trailer}startxref\n0\n%%EOF\n`)]
}

export const probes: ReadonlyArray<Probe> = [
  {
    what: "a harmless text",
    pieces: () => [ascii("The engine weaves algebraic patterns.\n")],
    expected: /^stream: OK$/,
    advice: "see clamd's log"
  },
  {
    what: "the EICAR test file",
    pieces: () => [eicar],
    expected: found,
    advice: "it has no signatures: see that freshclam runs"
  },
  {
    what: `the EICAR test file at the end of ${attachmentSizeBytesMax} bytes`,
    pieces: large,
    expected: found,
    advice: `set StreamMaxLength and MaxFileSize to at least ${attachmentSizeBytesMax}, MaxScanSize to twice that, ScanArchive yes`
  },
  {
    what: "an archive nested deeper than it looks",
    pieces: () => nested(128),
    expected: overLimit,
    advice: "set AlertExceedsMax yes"
  },
  {
    what: "2 GB in a zip of 2 MB",
    pieces: bomb,
    expected: overLimit,
    advice: "set AlertExceedsMax yes, and MaxFileSize above MaxScanSize by 10M: it cuts off files in a zip without a word"
  },
  { what: "an encrypted zip", pieces: encryptedZip, expected: encrypted, advice: "set AlertEncrypted yes" },
  { what: "an encrypted PDF", pieces: encryptedPdf, expected: encrypted, advice: "set AlertEncrypted yes" }
]
