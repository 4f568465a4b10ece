export * as FileBlobStore from "./FileBlobStore.ts"
export * as NodeCrypto from "./NodeCrypto.ts"
