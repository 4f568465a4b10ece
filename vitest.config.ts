import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["{core,adapters,runtimes,conformance,examples,client}/**/*.test.ts"],
    pool: "forks",
    testTimeout: 20_000,
    hookTimeout: 60_000
  }
})
