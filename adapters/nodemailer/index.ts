export * as NodemailerMime from "./NodemailerMime.ts"
