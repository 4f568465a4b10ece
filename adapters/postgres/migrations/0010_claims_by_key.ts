/**
 * The jobs that a claim takes are locked by their key, and then looked at. Where the look said `ready`, a plan could take
 * them from the index of all that is ready of their kind, and where it was made while there were hardly any jobs, it did:
 * it walked along that index for each of them, and a claim from a backlog took a hundred times as long.
 */
import { statements as claims } from "./0005_claims.ts"

const before = "where j.ready order by j.kind, j.subject for update"
/** No index is known to hold what this asks for. */
const after = "where j.ready::int = 1 order by j.kind, j.subject for update"

export const statements: ReadonlyArray<string> = claims.map((statement) => statement.replace(before, after))
