/** The management commands, in the order in which an operator comes to need them. */
import { applicationCommand } from "./ApplicationCommand.ts"
import { auditCommand } from "./AuditCommand.ts"
import { domainCommand } from "./DomainCommand.ts"
import { endpointCommand } from "./EndpointCommand.ts"
import { keyCommand } from "./KeyCommand.ts"
import { mailboxCommand } from "./MailboxCommand.ts"
import { planCommand } from "./PlanCommand.ts"
import { tenantCommand } from "./TenantCommand.ts"

export const managementCommands = [
  planCommand,
  tenantCommand,
  applicationCommand,
  keyCommand,
  domainCommand,
  mailboxCommand,
  endpointCommand,
  auditCommand
] as const
