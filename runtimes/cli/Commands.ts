/** All commands, in the order in which an operator comes to need them. */
import { applicationCommand } from "./ApplicationCommand.ts"
import { auditCommand } from "./AuditCommand.ts"
import { conformanceCommand } from "./Conformance.ts"
import { doctorCommand } from "./Doctor.ts"
import { domainCommand } from "./DomainCommand.ts"
import { endpointCommand } from "./EndpointCommand.ts"
import { inspectCommand } from "./Inspect.ts"
import { keyCommand } from "./KeyCommand.ts"
import { mailboxCommand } from "./MailboxCommand.ts"
import { openApiCommand } from "./OpenApi.ts"
import { planCommand } from "./PlanCommand.ts"
import { providerCommand } from "./ProviderCommand.ts"
import { devCommand, migrateCommand, serveCommand, smtpCommand, workerCommand } from "./Runtimes.ts"
import { sealingCommand } from "./Sealing.ts"
import { suppressionCommand } from "./SuppressionCommand.ts"
import { tenantCommand } from "./TenantCommand.ts"

/** What runs, and what looks at it or proves it. */
export const commands = [
  devCommand,
  serveCommand,
  workerCommand,
  smtpCommand,
  migrateCommand,
  doctorCommand,
  sealingCommand,
  conformanceCommand,
  inspectCommand,
  openApiCommand
] as const

/** What changes what tenants have and may do. */
export const managementCommands = [
  planCommand,
  tenantCommand,
  applicationCommand,
  keyCommand,
  domainCommand,
  mailboxCommand,
  suppressionCommand,
  endpointCommand,
  auditCommand,
  providerCommand
] as const
