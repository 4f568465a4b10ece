/** What is broken in a full round, and in the short one that the tests run. */
import type { DevPlan } from "./Dev.ts"
import type { Plan } from "./Run.ts"

export interface Plans {
  readonly clusters: ReadonlyArray<Plan>
  readonly dev: DevPlan
}

export const full: Plans = {
  clusters: [
    {
      queue: "postgres",
      kills: 100,
      postgresRestarts: 10,
      terminations: 20,
      redisFlushes: 0,
      redisKills: 0,
      redisAbsenceMs: 0,
      workerStoppedMs: 70_000,
      migrates: true,
      senders: 8,
      backWithinMs: 5_000
    },
    {
      queue: "redis",
      kills: 60,
      postgresRestarts: 5,
      terminations: 10,
      redisFlushes: 10,
      redisKills: 5,
      redisAbsenceMs: 30_000,
      workerStoppedMs: 70_000,
      migrates: true,
      senders: 8,
      backWithinMs: 5_000
    }
  ],
  dev: { kills: 40, senders: 4, backWithinMs: 5_000 }
}

/** It runs beside other tests, on whatever is left of the machine. */
export const short: Plans = {
  clusters: [
    {
      queue: "redis",
      kills: 6,
      postgresRestarts: 1,
      terminations: 2,
      redisFlushes: 1,
      redisKills: 1,
      redisAbsenceMs: 0,
      workerStoppedMs: 0,
      migrates: true,
      senders: 4,
      backWithinMs: 60_000
    }
  ],
  dev: { kills: 3, senders: 2, backWithinMs: 60_000 }
}
