export * as PostmarkMailProvider from "./PostmarkMailProvider.ts"
export * as PostmarkNotificationIntake from "./PostmarkNotificationIntake.ts"
