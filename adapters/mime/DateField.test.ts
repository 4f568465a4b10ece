import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { processorTime } from "../../conformance/ProcessorTime.ts"
import { readDate } from "./DateField.ts"

/** As the RFC has it; and what it stands for. */
const proper: ReadonlyArray<readonly [field: string, iso: string]> = [
  ["Fri, 21 Nov 1997 09:55:06 -0600", "1997-11-21T15:55:06.000Z"],
  ["21 Nov 1997 09:55:06 -0600", "1997-11-21T15:55:06.000Z"],
  ["Tue, 1 Jul 2003 10:52 +0200", "2003-07-01T08:52:00.000Z"],
  ["  Thu,\t13\tFeb\t1969 23:32:54 -0330 (Newfoundland Time)", "1969-02-14T03:02:54.000Z"],
  ["Thu, 13 (the (thirteenth\\)) day) Feb 2025 23:32:00 +0000", "2025-02-13T23:32:00.000Z"],
  ["21 Nov 97 09:55:06 GMT", "1997-11-21T09:55:06.000Z"],
  ["1 Jan 49 00:00:00 UT", "2049-01-01T00:00:00.000Z"],
  ["1 Jan 50 00:00:00 UT", "1950-01-01T00:00:00.000Z"],
  ["1 Jan 125 00:00:00 UT", "2025-01-01T00:00:00.000Z"],
  ["Fri, 21 Nov 1997 09(comment): 55 : 06 EST", "1997-11-21T14:55:06.000Z"],
  ["Mon, 7 Apr 2025 09:00:00 PDT", "2025-04-07T16:00:00.000Z"],
  ["Mon, 7 Apr 2025 09:00:00 A", "2025-04-07T09:00:00.000Z"],
  ["Sat, 31 Dec 2016 23:59:60 +0000", "2017-01-01T00:00:00.000Z"],
  ["Thu, 29 Feb 2024 12:00:00 +0530", "2024-02-29T06:30:00.000Z"],
  ["Mon, 7 Apr 2025 09:00:00 -0000", "2025-04-07T09:00:00.000Z"]
]

/** Not as the RFC has it, and yet clear. */
const loose: ReadonlyArray<readonly [field: string, iso: string]> = [
  ["Mon, 7 Apr 2025 09:00:00", "2025-04-07T09:00:00.000Z"],
  ["Mon, 7 Apr 2025 9:00:00 +0200", "2025-04-07T07:00:00.000Z"],
  ["Mon, 7 Apr 2025 09:00:00 +02:00", "2025-04-07T07:00:00.000Z"],
  ["Mon, 7 Apr 2025 09:00:00 GMT+0200", "2025-04-07T07:00:00.000Z"],
  ["Mon, 7 Apr 2025 09:00:00 CEST", "2025-04-07T09:00:00.000Z"],
  ["Monday, 7 April 2025 09:00:00 +0000", "2025-04-07T09:00:00.000Z"],
  ["7-Apr-2025 09:00:00 +0000", "2025-04-07T09:00:00.000Z"],
  ["Mon Apr  7 09:00:00 2025", "2025-04-07T09:00:00.000Z"],
  ["Mon Apr  7 09:00:00 EST 2025", "2025-04-07T14:00:00.000Z"],
  ["2025-04-07T09:00:00Z", "2025-04-07T09:00:00.000Z"],
  ["2025-04-07 09:00:00.123 +0100", "2025-04-07T08:00:00.000Z"],
  ["April 7, 2025 9:00 PM", "2025-04-07T21:00:00.000Z"],
  ["Lun, 7 Apr 2025 09:00:00 +0200", "2025-04-07T07:00:00.000Z"],
  ["Mon, 7 Apr 2025 09:00:00 +0100 CET", "2025-04-07T08:00:00.000Z"],
  ["2025-04-07 09:00:00 +0000 UTC", "2025-04-07T09:00:00.000Z"],
  ["2025-04-07 09:00:00.123456789 -0300 -03", "2025-04-07T12:00:00.000Z"],
  ["Mon Apr  7 09:00:00 +0545 +0545 2025", "2025-04-07T03:15:00.000Z"],
  ["Apr 7, 2025 09:00:00 -0500 EDT", "2025-04-07T14:00:00.000Z"]
]

const none = [
  "",
  "yesterday",
  "Mo, 7 Mär 2025 09:00:00 +0200",
  "понедельник, 7 апреля 2025 09:00:00 +0300",
  "30 Feb 2025 09:00:00 +0000",
  "29 Feb 2025 09:00:00 +0000",
  "0 Jan 2025 09:00:00 +0000",
  "1 Jan 2025 24:00:00 +0000",
  "1 Jan 2025 09:60:00 +0000",
  "1 Jan 2025 09:00:61 +0000",
  "1 Jan 2025 09:00:00 +9900",
  "1 Jan 2025 09:00:00 +0100 PM",
  "1 Jan 2025 09:00:00 +0100 CET 2",
  "2025-13-01T00:00:00Z",
  "1 Jan 2025",
  "(1 Jan 2025 09:00:00 +0000",
  `${" ".repeat(300)}1 Jan 2025 09:00:00 +0000`
]

describe("a date", () => {
  for (const [field, iso] of proper) {
    it(`is read as the RFC has it: ${field}`, () => {
      assert.deepStrictEqual(readDate(field), { date: Date.parse(iso), isProper: true })
    })
  }
  for (const [field, iso] of loose) {
    it(`is read however it is written: ${field}`, () => {
      assert.deepStrictEqual(readDate(field), { date: Date.parse(iso), isProper: false })
    })
  }
  for (const field of none) {
    it(`is none: ${field}`, () => {
      assert.deepStrictEqual(readDate(field), { date: null, isProper: false })
    })
  }

  it("comes back as it was formatted", () => {
    const any = fc.date({ min: new Date("0100-01-01"), max: new Date("9999-12-31"), noInvalidDate: true })
    fc.assert(
      fc.property(any, (date) => {
        date.setUTCMilliseconds(0)
        assert.deepStrictEqual(readDate(date.toUTCString().replace("GMT", "+0000")), { date: date.getTime(), isProper: true })
      })
    )
  })

  it("is read or refused in no time, whatever it is", () => {
    const strange = ["1 ".repeat(500_000), "(".repeat(1_000_000), "a, ".repeat(300_000), "\\".repeat(1_000_000)]

    assert.isBelow(processorTime(() => strange.forEach(readDate), 200), 200)
  })
})
