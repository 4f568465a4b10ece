/** The image and the compose file of the documentation: what they install, start and set is there. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { isIPv4 } from "node:net"
import { join } from "node:path"
import * as YAML from "yaml"
import { settings } from "../Config.ts"
import { commands } from "./Commands.ts"
import { oldNode } from "./OldNode.ts"

const root = join(import.meta.dirname, "../..")
const read = (file: string) => readFileSync(join(root, file), "utf8")
const manifest = JSON.parse(read("package.json")) as {
  readonly bin: { readonly mailroom: string }
  readonly peerDependencies: Readonly<Record<string, string>>
}

/** Its instructions in order, each as one line. */
const instructions = read("docs/container/Dockerfile")
  .replace(/^#.*\n/gm, "")
  .replace(/\\\n\s*/g, "")
  .trimEnd()
  .split("\n")
const valueOf = (name: string): string => {
  const [line, ...more] = instructions.filter((line) => line.startsWith(`${name} `))
  assert.deepStrictEqual(more, [])
  return line!.slice(name.length + 1)
}

describe("the image", () => {
  it("has a Node that the command wants", () => {
    const [, version] = /^node:(\d+)-slim$/.exec(valueOf("FROM"))!

    assert.isNull(oldNode(`${version}.99.0`, "node"))
  })

  it("installs the package, and all that goes with it but the database of dev", () => {
    const [, names] = /^npm install --no-audit --no-fund \.\/mailroom-\*\.tgz (.+?) &&/.exec(valueOf("RUN"))!

    assert.deepStrictEqual(
      names!.split(" ").toSorted(),
      Object.keys(manifest.peerDependencies).filter((name) => name !== "@electric-sql/pglite").toSorted()
    )
    assert.strictEqual(valueOf("COPY"), "mailroom-*.tgz ./")
  })

  it("starts the command, as somebody who may do nothing else, and serves unless it is told otherwise", () => {
    assert.deepStrictEqual(JSON.parse(valueOf("ENTRYPOINT")), ["node", join("node_modules/mailroom", manifest.bin.mailroom)])
    assert.deepStrictEqual(JSON.parse(valueOf("CMD")), ["serve"])
    assert.strictEqual(valueOf("USER"), "node")
    assert.isBelow(instructions.indexOf("USER node"), instructions.findIndex((line) => line.startsWith("ENTRYPOINT ")))
  })

  it("sets settings that there are, and gives Node what the units give it", () => {
    const { NODE_OPTIONS, ...others } = Object.fromEntries(valueOf("ENV").split(" ").map((pair) => pair.split(/=(.*)/s)))
    const names = Object.values(settings).map(({ name }) => name)

    assert.deepStrictEqual(others, { MAILROOM_HOST: "0.0.0.0", MAILROOM_INBOUND_HOST: "0.0.0.0" })
    assert.includeMembers(names, Object.keys(others))
    assert.include(read("docs/systemd/mailroom-serve.service"), `Environment=NODE_OPTIONS=${NODE_OPTIONS}\n`)
  })
})

interface Service {
  readonly image: string
  readonly command?: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly ports?: ReadonlyArray<string>
  readonly volumes: ReadonlyArray<string>
  readonly stop_grace_period: string
  readonly read_only?: boolean
}

describe("the compose file", () => {
  const file = YAML.parse(read("docs/container/compose.yml"), { merge: true }) as {
    readonly services: Readonly<Record<string, Service>>
    readonly volumes: Readonly<Record<string, null>>
    readonly networks: { readonly default: { readonly ipam: { readonly config: ReadonlyArray<{ readonly subnet: string }> } } }
  }
  const { postgres, ...ours } = file.services
  const guide = read("docs/deploy.md")
  const fallback = (name: string) => Object.values(settings).find((setting) => setting.name === name)!.fallback

  it("runs the image of the guide, each service by the command of its name", () => {
    const [, image] = /^docker build -f docs\/container\/Dockerfile -t (\S+) image$/m.exec(guide)!

    assert.hasAllKeys(ours, ["migrate", "serve", "worker", "smtp"])
    assert.includeMembers(commands.map(({ name }) => name), Object.keys(ours))
    for (const [name, service] of Object.entries(ours)) {
      assert.strictEqual(service.image, image)
      assert.deepStrictEqual(service.command, [name])
      assert.isTrue(service.read_only)
    }
  })

  it("sets settings that there are, and trusts the gateway of its own network", () => {
    const [, network] = /^(\d+\.\d+\.\d+)\.0\/24$/.exec(file.networks.default.ipam.config[0]!.subnet)!

    for (const { environment } of Object.values(ours)) {
      assert.includeMembers(Object.values(settings).map(({ name }) => name), Object.keys(environment))
      assert.deepStrictEqual(environment, { MAILROOM_TRUSTED_PROXIES: `${network}.1` })
    }
  })

  it("publishes the ports that the processes have, as the guide does, and to clients whose addresses they see", () => {
    const published = [...guide.matchAll(/^run -d .* -p (\S+) /gm)].map(([, port]) => port!)

    assert.deepStrictEqual(Object.values(ours).flatMap(({ ports }) => ports ?? []).toSorted(), published.toSorted())
    assert.deepStrictEqual(published.map((port) => port.split(":")[2]), [
      fallback("MAILROOM_PORT"),
      fallback("MAILROOM_INBOUND_PORT")
    ])
    for (const port of published) assert.isTrue(isIPv4(port.split(":")[0]!))
  })

  it("migrates first, and stops the database last, in the time that the processes may take", () => {
    const { migrate, ...lasting } = ours

    assert.deepStrictEqual(migrate!.depends_on, { postgres: { condition: "service_healthy" } })
    for (const { depends_on, stop_grace_period } of Object.values(lasting)) {
      assert.deepStrictEqual(depends_on, {
        postgres: { condition: "service_healthy" },
        migrate: { condition: "service_completed_successfully" }
      })
      assert.include(guide, `--stop-timeout ${stop_grace_period.replace("s", "")} `)
    }
  })

  it("keeps the database in a volume, with the user, name, host and password of the guide's URL", () => {
    const { POSTGRES_USER, POSTGRES_PASSWORD_FILE } = postgres!.environment

    assert.include(guide, `"postgres://${POSTGRES_USER}:$(cat ${POSTGRES_PASSWORD_FILE})@postgres:5432/${POSTGRES_USER}"`)
    assert.deepStrictEqual(postgres!.volumes, [
      `${POSTGRES_PASSWORD_FILE}:${POSTGRES_PASSWORD_FILE}:ro`,
      `${Object.keys(file.volumes)[0]}:/var/lib/postgresql/data`
    ])
  })
})
