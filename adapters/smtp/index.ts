export * as SmtpMailProvider from "./SmtpMailProvider.ts"
