export * as ClamdScanner from "./ClamdScanner.ts"
