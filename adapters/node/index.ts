export * as FileBlobStore from "./FileBlobStore.ts"
export * as NodeCrypto from "./NodeCrypto.ts"
export * as NodeResolver from "./NodeResolver.ts"
