import { defineConfig } from "vitest/config"
import type { Reporter } from "vitest/node"

/** Ends each run with one plain line, `12 passed, 0 failed`; a file that cannot be loaded and an error outside any test count as failed. */
const closingLine: Reporter = {
  onTestRunEnd(modules, unhandledErrors) {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const broken = modules.flatMap((module) => [...module.errors(), ...[...module.children.allSuites()].flatMap((suite) => suite.errors())])
    const count = (state: "passed" | "failed" | "skipped") => tests.filter((test) => test.result().state === state).length
    const skipped = count("skipped") + tests.filter((test) => test.result().state === "pending").length
    const failed = count("failed") + broken.length + unhandledErrors.length
    process.stdout.write(`${count("passed")} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`)
  }
}

export default defineConfig({
  // `mailroom/...` means the sources in this checkout, as for `node -C mailroom-source`. No `module`: it is a bundler's, and
  // names files that Node does not load.
  ssr: { resolve: { conditions: ["mailroom-source", "node", "development|production"] } },
  test: {
    include: ["{core,adapters,runtimes,conformance,examples,client,docs,bench}/**/*.test.ts"],
    globalSetup: ["conformance/servers.ts"],
    pool: "forks",
    // By default a processor is left to the one who watches; half the time of a run is worth more.
    maxWorkers: "100%",
    reporters: ["default", closingLine],
    testTimeout: 20_000,
    hookTimeout: 60_000
  }
})
