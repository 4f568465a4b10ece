/** The benchmarks by name; each is a program of this folder. */

export interface Benchmark {
  readonly name: string
  readonly about: string
  /** Those of one name that follow one another are prepared together, and then measured in turn. */
  readonly preparedWith?: "busy servers" | "long logs" | "idle servers"
  /** Takes so long that it is run by its name, and in a smoke round. */
  readonly isLong?: true
}

/** What `npm run bench` runs, in this order, but for those that are long. */
export const benchmarks: ReadonlyArray<Benchmark> = [
  { name: "accept", about: "POST /v1/messages, beside one INSERT a request", preparedWith: "busy servers" },
  { name: "worker", about: "a worker drains a backlog, beside nodemailer's pool", preparedWith: "busy servers" },
  { name: "end-to-end", about: "from the request to the sink, beside Postfix", preparedWith: "busy servers" },
  { name: "webhooks", about: "deliveries to fast and to slow receivers, beside undici", preparedWith: "busy servers" },
  { name: "hang", about: "receivers that hang, and the others", preparedWith: "busy servers" },
  { name: "events", about: "a page of a log of ten million events", preparedWith: "long logs" },
  { name: "claims", about: "claims with a million messages queued", preparedWith: "long logs" },
  { name: "upload", about: "memory for each upload, and small requests meanwhile", preparedWith: "idle servers" },
  { name: "scale", about: "two workers beside one", preparedWith: "idle servers" },
  { name: "stack", about: "a cheap GET, beside bare node:http", preparedWith: "idle servers" },
  { name: "auth", about: "known keys, while others force hashes", preparedWith: "idle servers" },
  { name: "latency", about: "from the 202 to the mail server", preparedWith: "idle servers" },
  { name: "mime", about: "building a message, beside nodemailer" },
  { name: "smtp", about: "handing messages over, beside nodemailer's pool" },
  { name: "inbound", about: "taking mail in, beside npm smtp-server with one INSERT a message" },
  { name: "files", about: "large files out, in and downloaded, beside nodemailer, npm smtp-server and node:http" },
  { name: "soak", about: "memory, files and connections over time", isLong: true }
]

/** Older questions, to be asked by name. */
export const others: ReadonlyArray<string> = ["refusals", "deadline", "bad-certificates", "fairness", "row-security"]
