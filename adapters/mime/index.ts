export * as RfcMime from "./RfcMime.ts"
