/** The SMTP envelope: who is told of failure and who gets a copy, apart from what the headers say. */
import type { Address } from "./Address.ts"

export interface Envelope {
  /** MAIL FROM. Null only for a delivery status notification. */
  readonly returnPath: Address | null
  /** RCPT TO, each once, bcc included. */
  readonly recipients: ReadonlyArray<Address>
}
