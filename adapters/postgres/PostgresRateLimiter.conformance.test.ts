import { Layer } from "effect"
import { suite } from "../../conformance/RateLimiter.ts"
import { conforms } from "../../conformance/vitest.ts"
import { migrate } from "./Migrations.ts"
import * as Pglite from "./Pglite.ts"
import * as PostgresRateLimiter from "./PostgresRateLimiter.ts"
import * as TestDatabase from "./TestDatabase.ts"

const pglite = Layer.effectDiscard(migrate).pipe(Layer.provideMerge(Pglite.layerMemory))

conforms("PostgresRateLimiter", suite, PostgresRateLimiter.layer.pipe(Layer.provide(TestDatabase.layer())))
conforms("PostgresRateLimiter over PGlite", suite, PostgresRateLimiter.layer.pipe(Layer.provide(pglite)))
