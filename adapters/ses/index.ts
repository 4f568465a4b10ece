export * as SesMailProvider from "./SesMailProvider.ts"
export * as SesNotificationIntake from "./SesNotificationIntake.ts"
