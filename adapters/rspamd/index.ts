export * as RspamdSpamFilter from "./RspamdSpamFilter.ts"
