export * as UndiciWebhookTransport from "./UndiciWebhookTransport.ts"
