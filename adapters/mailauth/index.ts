export * as MailauthAuthenticator from "./MailauthAuthenticator.ts"
