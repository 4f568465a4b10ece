/**
 * A queue is empty most of the time, and a plan that is made by that count reads all jobs and compares each with those that
 * are meant, for that costs nothing while there are none; with a backlog, it is what a queue does all day. PostgreSQL makes
 * such a plan only of an index whose order is of use: to the joins, or to the order of the locks. So here that order is
 * none of the index's, and what stands of a kind is no equation that a merge could use, but a list of one.
 */
import { statements as jobs } from "./0002_jobs.ts"
import { statements as claims } from "./0010_claims_by_key.ts"

const byKey = (statement: string): string =>
  statement
    .replace(/^create function/, "create or replace function")
    .replaceAll(/\bj\.kind = (\w+)\.kind and j\.subject = \1\.subject/g, "j.kind = any(array[$1.kind]) and j.subject = $1.subject")
    .replaceAll(/(j\.subject = (\w+)\.subject[^;]*?) order by j\.kind, j\.subject for update/g, '$1 order by $2.kind collate "C", $2.subject collate "C" for update')

export const statements: ReadonlyArray<string> = [
  ...claims,
  ...jobs.filter((statement) => /^create function mailroom\.(complete|extend|release)_jobs\(/.test(statement))
].map(byKey)
