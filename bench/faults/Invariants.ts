/**
 * What must hold once the faults are over: each rule compares what clients,
 * receivers and the mail server saw with what the database holds, and returns
 * a line for each case that breaks it.
 */
import type { Caller, Members } from "../Api.ts"
import { tenantIdOf } from "../Founding.ts"
import type { Clients } from "./Clients.ts"
import type { Handed, MailServer, Receiver } from "./Witnesses.ts"

/** When something was broken, and when all of the service was back; by the clock of the witnesses. */
export interface Fault {
  readonly from: number
  readonly until: number
}

export interface Seen {
  readonly clients: Clients
  readonly callers: ReadonlyArray<Caller>
  /** By endpoint id. */
  readonly receivers: ReadonlyMap<string, Receiver>
  readonly mailServer: MailServer
  /** How often something was killed, cut off or held: what was sent twice must be explained by one of these. */
  readonly disruptions: number
  readonly faults: ReadonlyArray<Fault>
  readonly query: (sql: string) => Promise<ReadonlyArray<Members>>
}

export interface Rule {
  readonly name: string
  readonly check: (seen: Seen) => Promise<ReadonlyArray<string>>
}

const ended = ["sent", "delivered", "bounced", "failed"]

/** What becomes of a recipient: the mail server takes everyone, and the sandbox goes by the local part. */
const outcomeOf = ({ environment }: Caller, address: string): string => {
  if (environment === "production") return "sent"
  const scenario = address.slice(0, address.indexOf("+"))
  return scenario === "failed" ? "failed" : scenario === "bounced" || scenario === "late-bounce" ? "bounced" : "delivered"
}

/** A fault may show as late as this after all are back: whoever was cut off has a lease to lose. */
const aftermathMs = 10_000

/** Those that were handed over again though nothing had broken since, or shortly before. */
export const unexplained = (handed: ReadonlyArray<Handed>, faults: ReadonlyArray<Fault>): ReadonlyArray<string> =>
  [...Map.groupBy(handed, ({ messageId }) => messageId)].flatMap(([id, times]) =>
    times
      .slice(1)
      .filter(({ at }, index) => !faults.some(({ from, until }) => from <= at && until + aftermathMs >= times[index]!.at))
      .map(() => `${id}: handed over again, and no fault explains it`)
  )

/** How many of them, where that is more than none. */
const duplicates = (list: Iterable<string>): ReadonlyArray<string> => {
  const counts = new Map<string, number>()
  for (const one of list) counts.set(one, (counts.get(one) ?? 0) + 1)
  return [...counts].filter(([, count]) => count > 1).map(([one, count]) => `${one} × ${count}`)
}

export const rules: ReadonlyArray<Rule> = [
  {
    name: "I1: what was accepted is there, for its sender, and each recipient has come to its own end",
    check: async ({ clients }) => {
      const broken: Array<string> = []
      for (const { caller, ids, recipients: sentTo } of clients.sendings) {
        for (const id of ids) {
          const reply = await clients.ask(caller, "GET", `/v1/messages/${id}`)
          const { status, recipients = [] } = reply?.json["message"] ?? {}
          if (reply?.status !== 200 || !ended.includes(status)) broken.push(`${id}: ${reply?.status} ${status}`)
          const outcomes = new Map((recipients as ReadonlyArray<Members>).map(({ address, status }) => [address, status]))
          for (const address of sentTo) {
            const [outcome, due] = [outcomes.get(address), outcomeOf(caller, address)]
            if (outcome !== due) broken.push(`${id}: ${address} is ${outcome} instead of ${due}`)
          }
        }
      }
      return broken
    }
  },
  {
    name: "a client that keeps to the contract was refused nothing",
    check: ({ clients }) => Promise.resolve(clients.sendings.flatMap(({ key, refusedWith }) => (refusedWith === null ? [] : [`${key}: ${refusedWith}`])))
  },
  {
    name: "I2: what was refused left no message, and nothing is there that nobody sent",
    check: async ({ clients, query }) => {
      const bySubject = new Map(clients.sendings.map((sending) => [sending.subject, sending]))
      const messages = await query(`select id::text as id, record->>'subject' as subject from mailroom.message`)
      return messages.flatMap(({ id, subject }) => {
        const sending = bySubject.get(subject)
        if (sending === undefined) return [`${id}: nobody sent ${subject}`]
        return sending.refusedWith === null ? [] : [`${id}: was refused with ${sending.refusedWith}`]
      })
    }
  },
  {
    name: "I3: message, reservation, audit entry and message.queued stand together",
    check: async ({ query }) => {
      const messages = await query(`select id::text as id from mailroom.message`)
      const beside = {
        reservations: await query(`select record->>'messageId' as id from mailroom.reservation`),
        "audit entries": await query(`select record->'subject'->>'id' as id from mailroom.audit where record->>'action' = 'message.send'`),
        "message.queued": await query(`select record->>'resourceId' as id from mailroom.event where record->>'type' = 'message.queued'`)
      }
      return Object.entries(beside).flatMap(([what, rows]) => {
        const counts = Map.groupBy(rows, ({ id }) => String(id))
        const wrong = messages.filter(({ id }) => counts.get(id)?.length !== 1).map(({ id }) => `${id}: ${counts.get(id)?.length ?? 0} ${what}`)
        return rows.length === messages.length ? wrong : [...wrong, `${rows.length} ${what} to ${messages.length} messages`]
      })
    }
  },
  {
    name: "I4: one key made one message, and at most one answer was a first",
    check: async ({ clients, query }) => {
      const subjects = await query(`select record->>'subject' as subject from mailroom.message`)
      return [
        ...clients.sendings.filter(({ ids }) => ids.size > 1).map(({ key, ids }) => `${key}: ${[...ids].join(", ")}`),
        ...clients.sendings.filter(({ firsts }) => firsts > 1).map(({ key, firsts }) => `${key}: ${firsts} firsts`),
        ...duplicates(subjects.map(({ subject }) => String(subject)))
      ]
    }
  },
  {
    name: "I5: submissions of one message are the same bytes, and as many as faults explain",
    check: async ({ mailServer, disruptions, faults }) => {
      const byId = Map.groupBy(mailServer.handed, ({ messageId }) => messageId)
      const broken = [...byId].flatMap(([id, handed]) =>
        new Set(handed.map(({ sha256 }) => sha256)).size > 1 ? [`${id}: different bytes`] : []
      )
      broken.push(...unexplained(mailServer.handed, faults))
      const extra = mailServer.handed.length - byId.size
      // One batch of submissions may be under way in each disruption.
      return extra > disruptions * 32 ? [...broken, `${extra} submissions more than messages, at ${disruptions} disruptions`] : broken
    }
  },
  {
    name: "I5: every production message that was sent reached the mail server, for each of its recipients and nobody else",
    check: async ({ clients, mailServer, query }) => {
      const bySubject = new Map(clients.sendings.map(({ subject, recipients }) => [subject, recipients]))
      const handed = Map.groupBy(mailServer.handed, ({ messageId }) => messageId)
      const sent = await query(`
        select record->>'internetMessageId' as id, record->>'subject' as subject from mailroom.message where environment = 'production' and record->>'status' = 'sent'`)
      return sent.flatMap(({ id, subject }) => {
        const had = new Set((handed.get(id) ?? []).flatMap(({ recipients }) => recipients))
        const wanted = new Set(bySubject.get(subject))
        const wrong = [...[...had].filter((address) => !wanted.has(address)), ...[...wanted].filter((address) => !had.has(address))]
        return had.size === 0 ? [`${id} is sent, and the mail server never had it`] : wrong.map((address) => `${id}: ${address} is not one of both, asked for and handed over`)
      })
    }
  },
  {
    name: "I7, I10: a message's events number its transitions without gap, and each state has its event",
    check: async ({ query }) => {
      const messages = await query(`select id::text as id, (record->>'eventSequence')::int as last from mailroom.message`)
      const events = await query(`
        select record->>'resourceId' as id, record->>'type' as type, (record->'data'->>'sequence')::int as sequence, record->'data'->>'recipient' as recipient
        from mailroom.event order by shard, position`)
      const recipients = await query(`
        select id::text as id, recipient->>'address' as address, recipient->>'status' as status
        from mailroom.message, json_array_elements(record->'recipients') recipient`)
      const sequences = Map.groupBy(events, ({ id }) => String(id))
      const told = new Set(events.map(({ id, type, recipient }) => `${id} ${type} ${recipient ?? ""}`))
      const eventless = recipients.filter(
        ({ id, address, status }) => status !== "queued" && !told.has(`${id} message.${status} ${status === "sent" ? "" : address}`)
      )
      const gaps = messages.flatMap(({ id, last }) => {
        const sequence = (sequences.get(id) ?? []).map((event) => Number(event["sequence"]))
        const isWhole = sequence.length === last && sequence.every((one, index) => one === index + 1)
        return isWhole ? [] : [`${id}: ${sequence.join(",")} of ${last}`]
      })
      return [...gaps, ...eventless.map(({ id, address, status }) => `${id} ${address} is ${status}, without its event`)]
    }
  },
  {
    name: "I8: each recipient and outcome made one event",
    check: async ({ query }) => {
      const rows = await query(`
        select record->>'resourceId' || ' ' || (record->>'type') || ' ' || coalesce(record->'data'->>'recipient', '') as what, count(*) as count
        from mailroom.event where record->>'type' in ('message.sent', 'message.delivered', 'message.bounced', 'message.failed')
        group by 1 having count(*) > 1`)
      return rows.map(({ what, count }) => `${what} × ${count}`)
    }
  },
  {
    name: "I11: positions of a shard rise by one, and the head is the last",
    check: async ({ query }) => {
      const rows = await query(`
        select h.shard, h.position, count(e.position) as count, coalesce(max(e.position), 0) as last
        from mailroom.log_head h left join mailroom.event e using (shard) group by 1, 2`)
      return rows
        .filter(({ position, count, last }) => Number(count) !== Number(position) || Number(last) !== Number(position))
        .map(({ shard, position, count, last }) => `shard ${shard}: head ${position}, ${count} events up to ${last}`)
    }
  },
  {
    name: "I11: whoever followed a feed saw every event, in the order that all see",
    check: async ({ clients, callers, query }) => {
      const broken: Array<string> = []
      for (const caller of callers) {
        const faults = await compareFollowed(clients, caller, await wholeFeed(clients, caller))
        const kept = await query(`
          select record->>'id' as id from mailroom.event
          where tenant_id = '${tenantIdOf(caller)}' and environment in ('', '${caller.environment}') and audience is null order by position`)
        const seen = [...clients.feeds.get(caller)!.ids]
        if (seen.join() !== kept.map(({ id }) => id).join()) broken.push(`${caller.name}: followed ${seen.length} events, and ${kept.length} are kept`)
        broken.push(...faults.map((fault) => `${caller.name}: ${fault}`))
      }
      return broken
    }
  },
  {
    name: "I11: no two messages of a tenant share a createdAt",
    check: async ({ query }) => {
      const rows = await query(`select tenant_id::text || ' ' || created_us as what from mailroom.message group by 1 having count(*) > 1`)
      return rows.map(({ what }) => what)
    }
  },
  {
    name: "I12: each event went to each endpoint once, and came to an end",
    check: async ({ receivers, query }) => {
      const endpoints = await query(`
        select id::text as id, tenant_id::text as tenant, environment, created_after, disabled_after, enabled_after from mailroom.endpoint`)
      const events = await query(`
        select record->>'id' as id, tenant_id::text as tenant, environment, position from mailroom.event`)
      const deliveries = await query(`select endpoint_id::text || ' ' || (record->>'eventId') as what from mailroom.delivery`)
      const made = new Set(deliveries.map(({ what }) => String(what)))
      const missing = endpoints
        .filter(({ id }) => receivers.has(id))
        .flatMap((to) =>
          events
            .filter(({ tenant, environment }) => tenant === to["tenant"] && ["", to["environment"]].includes(environment))
            .filter(({ position }) => position > to["created_after"] && (position <= to["disabled_after"] || position > to["enabled_after"]))
            .filter(({ id }) => !made.has(`${to["id"]} ${id}`))
            .map(({ id }) => ({ id, endpoint: to["id"] }))
        )
      const twice = await query(`
        select endpoint_id::text || ' ' || (record->>'eventId') as what from mailroom.delivery group by 1 having count(*) > 1`)
      const open = await query(`select id::text as id from mailroom.delivery where record->>'status' = 'pending'`)
      return [
        ...missing.map(({ id, endpoint }) => `${id} has no delivery to ${endpoint}`),
        ...twice.map(({ what }) => `${what} twice`),
        ...open.map(({ id }) => `${id} is pending`)
      ]
    }
  },
  {
    name: "I12: what is delivered was received, each time under one id with the same bytes",
    check: async ({ receivers, query }) => {
      const broken: Array<string> = []
      for (const [endpoint, { posts }] of receivers) {
        const byEvent = Map.groupBy(posts, ({ eventId }) => eventId)
        for (const [event, all] of byEvent) {
          if (new Set(all.map(({ webhookId, body }) => `${webhookId} ${body}`)).size > 1) broken.push(`${event}: differs between attempts`)
        }
        const answered = new Set(posts.filter(({ answered }) => answered === 200).map(({ eventId }) => eventId))
        const delivered = await query(
          `select record->>'eventId' as id from mailroom.delivery where endpoint_id = '${endpoint}' and record->>'status' = 'delivered'`
        )
        for (const { id } of delivered) if (!answered.has(id)) broken.push(`${id} is delivered, and the receiver never said so`)
      }
      return broken
    }
  },
  {
    name: "I12: a delivery has its body, or has succeeded and left it to its event, which is there",
    check: async ({ query }) => {
      const events = await query(`select tenant_id::text || ' ' || position as place, record->>'id' as id from mailroom.event`)
      const idAt = new Map(events.map(({ place, id }) => [place, id]))
      const bodiless = await query(`
        select delivery.id::text as id, delivery.tenant_id::text || ' ' || event_position as place,
          delivery.record->>'status' as status, delivery.record->>'eventId' as event
        from mailroom.delivery left join mailroom.delivery_body body on body.delivery_id = coalesce(body_id, delivery.id)
        where body.delivery_id is null`)
      return bodiless.flatMap(({ id, place, status, event }) => [
        ...(status === "delivered" ? [] : [`${id} is ${status}, and has no body`]),
        ...(idAt.get(place) === event ? [] : [`${id} has neither its body nor its event`])
      ])
    }
  },
  {
    name: "I13: at most five attempts a round are recorded, and none was made without a record but for a fault",
    check: async ({ receivers, disruptions, query }) => {
      const over = await query(`select id::text as id from mailroom.delivery where (record->>'attemptCount')::int > 5`)
      const [{ count }] = (await query(`select coalesce(sum(json_array_length(record->'attempts')), 0) as count from mailroom.delivery`)) as [
        { readonly count: unknown }
      ]
      const seen = [...receivers.values()].reduce((sum, { posts }) => sum + posts.length, 0)
      const unrecorded = seen - Number(count)
      return [
        ...over.map(({ id }) => `${id} has more than five attempts`),
        // One lane of deliveries may be under way in each disruption.
        ...(unrecorded > disruptions * 128 ? [`${unrecorded} requests without a record, at ${disruptions} disruptions`] : [])
      ]
    }
  },
  {
    name: "I14: every request was signed for its receiver",
    check: async ({ receivers }) =>
      [...receivers.values()].flatMap(({ posts }) => posts.filter(({ isSigned }) => !isSigned).map(({ webhookId }) => webhookId))
  },
  {
    name: "I16: nobody saw what is another tenant's",
    check: async ({ clients, receivers, callers, query }) => {
      const broken = [...clients.leaks]
      for (const [endpoint, { posts }] of receivers) {
        const [owner] = await query(`select tenant_id::text as tenant from mailroom.endpoint where id = '${endpoint}'`)
        const own = callers.find(({ name }) => name.includes(String(owner?.["tenant"])))
        for (const { body, eventId } of posts) {
          if (callers.some(({ canary }) => canary !== own?.canary && body.includes(canary))) broken.push(`${eventId} at ${endpoint}`)
        }
      }
      return broken
    }
  },
  {
    name: "I18: no due work is left",
    check: async ({ query }) => {
      const rows = await query(`
        select 'message ' || id::text as what from mailroom.message where next_attempt_ms is not null or poll_ms is not null
        union all select 'delivery ' || id::text from mailroom.delivery where next_attempt_ms is not null
        union all select 'attachment ' || id::text from mailroom.attachment where next_scan_ms is not null`)
      return rows.map(({ what }) => what)
    }
  },
  {
    name: "S37: every failure was an envelope, and none was a 500",
    check: ({ clients }) => Promise.resolve(clients.oddities)
  }
]

/** The events from the first one on; or why they cannot be read. */
const wholeFeed = async (clients: Clients, caller: Caller): Promise<ReadonlyArray<Members> | string> => {
  const events: Array<Members> = []
  let cursor: string | null = null
  do {
    const from: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`
    const reply = await clients.ask(caller, "GET", `/v1/events?limit=100${from}`)
    if (reply?.status !== 200) return `the feed cannot be read: ${reply?.status}`
    events.push(...(reply.json["items"] as ReadonlyArray<Members>))
    cursor = reply.json["nextCursor"] as string | null
  } while (cursor !== null)
  return events
}

/**
 * Some outcomes are late, so the feed goes on: what it showed from its beginning is how what was followed since begins, and
 * that is how it begins afterwards.
 */
const compareFollowed = async (clients: Clients, caller: Caller, before: ReadonlyArray<Members> | string): Promise<ReadonlyArray<string>> => {
  await clients.readFeed(caller)
  const followed = [...clients.feeds.get(caller)!.ids]
  const after = await wholeFeed(clients, caller)
  if (typeof before === "string") return [before]
  if (typeof after === "string") return [after]
  const isSeen = before.every(({ id }, index) => id === followed[index])
  const isThere = followed.every((id, index) => id === after[index]?.["id"])
  return isSeen && isThere ? [] : [`followed ${followed.length} events, and there are ${before.length} to ${after.length}`]
}

/** The same as far as it can be told from outside: a service without a database that others could look into. */
export const verdict = async (clients: Clients, caller: Caller): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = [...clients.oddities]
  const sequences = new Map<string, Array<number>>()
  const open = new Set(clients.sendings.flatMap(({ ids }) => [...ids]))
  for (let waited = 0; open.size > 0 && waited < 60_000; waited += 250) {
    for (const id of open) {
      const reply = await clients.ask(caller, "GET", `/v1/messages/${id}`)
      if (reply?.status === 200 && ended.includes(reply.json["message"]?.status)) open.delete(id)
    }
    if (open.size > 0) await new Promise((resolve) => setTimeout(resolve, 250))
  }
  broken.push(...[...open].map((id) => `${id} came to no end`))
  for (const { key, ids, firsts } of clients.sendings) {
    if (ids.size > 1) broken.push(`${key}: ${[...ids].join(", ")}`)
    if (firsts > 1) broken.push(`${key}: ${firsts} firsts`)
  }
  const feed = await wholeFeed(clients, caller)
  broken.push(...(await compareFollowed(clients, caller, feed)))
  for (const { type, resourceId, data } of typeof feed === "string" ? [] : feed) {
    if (String(type).startsWith("message.")) sequences.set(resourceId, [...(sequences.get(resourceId) ?? []), data.sequence])
  }
  for (const { ids } of clients.sendings) for (const id of ids) if (!sequences.has(id)) broken.push(`${id}: no events`)
  for (const [id, sequence] of sequences) {
    if (sequence.some((one, index) => one !== index + 1)) broken.push(`${id}: events ${sequence.join(",")}`)
  }
  return broken
}
