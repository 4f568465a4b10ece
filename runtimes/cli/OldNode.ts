/** A distribution's Node is often older than Mailroom wants, and stands before the right one in PATH; npm only warns of it. */

/** The first that has all that is imported; a test holds it to package.json. */
export const nodeWanted = "24.12"

/** One line; null if this Node will do. */
export const oldNode = (version: string, path: string): string | null => {
  const [major, minor] = version.split(".").map(Number) as [number, number]
  const [wantedMajor, wantedMinor] = nodeWanted.split(".").map(Number) as [number, number]
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return null
  return `Node.js ${nodeWanted} or later is wanted, and ${path} is ${version}: install another, or put the one that there is before it in PATH`
}
