/** A report as text: what failed, with the law it broke and what was said; what could not be judged; the figures. */
import type { Report, Result } from "./Run.ts"

const indent = (text: string, by: string): string =>
  text
    .split("\n")
    .map((line) => `${by}${line}`.trimEnd())
    .join("\n")

const seconds = (millis: number): string => `${(millis / 1_000).toFixed(1)} s`

/** `sending: a first request …  (Spec 4)`. */
export const nameOf = ({ suite, title, law }: Pick<Result, "suite" | "title" | "law">): string =>
  `${suite}: ${title} (${law})`

const failure = (result: Result): string =>
  [
    `FAILED  ${nameOf(result)}`,
    indent(result.reason ?? "", "        "),
    ...result.exchanges.map(({ request, response }) =>
      `\n${indent(request, "        > ")}${response === "" ? "" : `\n\n${indent(response, "        < ")}`}`
    ),
    ""
  ].join("\n")

/** Those that share a reason stand together. */
const notApplicable = (results: ReadonlyArray<Result>): ReadonlyArray<string> => {
  const byReason = new Map<string, Array<Result>>()
  for (const result of results) {
    byReason.set(result.reason ?? "", [...(byReason.get(result.reason ?? "") ?? []), result])
  }
  return [...byReason].flatMap((
    [reason, those]
  ) => [`NOT APPLICABLE  ${reason}`, ...those.map((one) => `        ${nameOf(one)}`), ""])
}

const figures = (report: Report): ReadonlyArray<string> => {
  const { passed, failed, notApplicable, notRun, requests, durationMs, pacedMs } = report
  return [
    `${passed} passed, ${failed} failed, ${notApplicable} not applicable${notRun > 0 ? `, ${notRun} not run` : ""}`,
    `${requests} requests in ${seconds(durationMs)}${
      pacedMs > 0 ? `, of which ${seconds(pacedMs)} were waits for the deployment's limits` : ""
    }`
  ]
}

/** For a person. */
export const toText = (report: Report): string => {
  const of = (outcome: Result["outcome"]) => report.checks.filter((result) => result.outcome === outcome)
  const slow = of("passed").filter(({ durationMs }) => durationMs >= 5_000)
  return [
    `${report.baseUrl} (${report.environment}), ${report.startedAt}`,
    "",
    ...of("failed").map(failure),
    ...notApplicable(of("not_applicable")),
    ...slow.map((result) => `SLOW    ${seconds(result.durationMs)}  ${nameOf(result)}`),
    ...(slow.length > 0 ? [""] : []),
    ...report.left.map((what) => `LEFT    ${what}`),
    ...(report.left.length > 0 ? [""] : []),
    ...figures(report),
    ""
  ].join("\n")
}
