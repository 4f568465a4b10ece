export * as SmtpMailProvider from "./SmtpMailProvider.ts"
export * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
