/**
 * A binary heap whose items know their place, so that any of them can be
 * removed in O(log n). An item is in one heap at a time, and what it is
 * ordered by does not change while it is there.
 */
export interface Item {
  slot: number
}

export class Heap<A extends Item> {
  readonly #items: Array<A> = []
  readonly #precedes: (left: A, right: A) => boolean

  constructor(precedes: (left: A, right: A) => boolean) {
    this.#precedes = precedes
  }

  get size(): number {
    return this.#items.length
  }

  get first(): A | undefined {
    return this.#items[0]
  }

  add(item: A): void {
    this.#rise(item, this.#items.length)
  }

  remove(item: A): void {
    const { slot } = item
    const last = this.#items.pop()! // the item itself is in the heap
    if (last === item) return
    this.#rise(last, slot)
    if (last.slot === slot) this.#sink(last, slot)
  }

  #rise(item: A, from: number): void {
    let slot = from
    while (slot > 0) {
      const parent = (slot - 1) >> 1
      if (!this.#precedes(item, this.#items[parent]!)) break
      this.#put(this.#items[parent]!, slot)
      slot = parent
    }
    this.#put(item, slot)
  }

  #sink(item: A, from: number): void {
    let slot = from
    for (;;) {
      let child = 2 * slot + 1
      if (child >= this.#items.length) break
      if (child + 1 < this.#items.length && this.#precedes(this.#items[child + 1]!, this.#items[child]!)) child += 1
      if (!this.#precedes(this.#items[child]!, item)) break
      this.#put(this.#items[child]!, slot)
      slot = child
    }
    this.#put(item, slot)
  }

  #put(item: A, slot: number): void {
    this.#items[slot] = item
    item.slot = slot
  }
}
