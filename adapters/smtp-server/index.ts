export * as SmtpListener from "./SmtpListener.ts"
