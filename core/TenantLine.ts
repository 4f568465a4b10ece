/**
 * Those who wait for something that tenants share. They take turns by tenant:
 * next is the first of the tenant that has waited longest since its last turn,
 * so that one tenant's thousand do not go before another's one. Who is wanted
 * no more when its turn comes leaves the line.
 */
import { Effect } from "effect"
import type { TenantId } from "./model/Ids.ts"
import type { SubmitRequest } from "./ports/MailProvider.ts"

export interface Waiter {
  readonly tenantId: TenantId
  readonly isWanted: () => boolean
  /** It has left the line. Does not come back to it before it returns. */
  readonly onUnwanted: () => void
}

export class TenantLine<W extends Waiter> {
  /** In the order of their turns; each has somebody who waits. */
  readonly #tenants = new Map<TenantId, Array<W>>()

  add(waiter: W): void {
    const own = this.#tenants.get(waiter.tenantId)
    if (own === undefined) this.#tenants.set(waiter.tenantId, [waiter])
    else own.push(waiter)
  }

  /** Who is next, of the tenants that may be. */
  next(mayBe: (tenantId: TenantId) => boolean = anybody): W | null {
    for (const [tenantId, own] of this.#tenants) {
      for (let first = own[0]; first !== undefined; first = own[0]) {
        if (!first.isWanted()) {
          this.remove(first)
          first.onUnwanted()
        } else if (mayBe(tenantId)) return first
        else break
      }
    }
    return null
  }

  /** It has its turn, and its tenant the last. Whether it was in the line. */
  take(waiter: W): boolean {
    if (!this.remove(waiter)) return false
    const { tenantId } = waiter
    const own = this.#tenants.get(tenantId)
    if (own !== undefined && this.#tenants.size > 1) {
      this.#tenants.delete(tenantId)
      this.#tenants.set(tenantId, own)
    }
    return true
  }

  /** Whether it was in the line. */
  remove(waiter: W): boolean {
    const own = this.#tenants.get(waiter.tenantId)
    const index = own?.indexOf(waiter) ?? -1
    if (own === undefined || index < 0) return false
    if (index === 0) own.shift()
    else own.splice(index, 1)
    if (own.length === 0) this.#tenants.delete(waiter.tenantId)
    return true
  }

  removeAll(): ReadonlyArray<W> {
    const all = [...this.#tenants.values()].flat()
    this.#tenants.clear()
    return all
  }
}

const anybody = () => true

export interface Places {
  /**
   * Waits for a place. Whether it has one; false where it is wanted no more. To be called where interruption is off, with
   * what lets it in: no place is lost between this and whatever gives it back.
   */
  readonly take: (
    request: Pick<SubmitRequest, "realm" | "isWanted">,
    restore: <A, E, R>(wait: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  ) => Effect.Effect<boolean>
  readonly release: Effect.Effect<void>
}

/** So many at a time. */
export const places = (count: number): Places => {
  const line = new TenantLine<Waiter & { readonly onTurn: () => void }>()
  /** While there is one, nobody waits. */
  let free = count

  const release = Effect.sync(() => {
    const waiter = line.next()
    if (waiter === null) free += 1
    else {
      line.take(waiter)
      waiter.onTurn()
    }
  })

  const take: Places["take"] = ({ realm: { tenantId }, isWanted }, restore) =>
    Effect.suspend(() => {
      if (free > 0) {
        if (!isWanted()) return Effect.succeed(false)
        free -= 1
        return Effect.succeed(true)
      }
      let hasPlace = false
      let leave = () => {}
      const wait = Effect.callback<boolean>((resume) => {
        const end = (isTurn: boolean) => {
          hasPlace = isTurn
          resume(Effect.as(Effect.yieldNow, isTurn)) // not within the call that has ended its waiting
        }
        const waiter = { tenantId, isWanted, onTurn: () => end(true), onUnwanted: () => end(false) }
        leave = () => void line.remove(waiter)
        line.add(waiter)
      })
      return Effect.onError(restore(wait), () => (hasPlace ? release : Effect.sync(leave)))
    })

  return { take, release }
}
