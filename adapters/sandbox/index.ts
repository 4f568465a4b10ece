export * as SandboxMailProvider from "./SandboxMailProvider.ts"
