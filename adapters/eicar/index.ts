export * as EicarScanner from "./EicarScanner.ts"
