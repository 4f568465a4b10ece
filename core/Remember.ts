/** Maps that are bounded, for what a process remembers and can find out again. */

/** Remembers a value under a key. Where there are `max` others, the one that was remembered first is forgotten. */
export const remember = <K, V>(map: Map<K, V>, key: K, value: V, max: number): void => {
  if (map.size >= max && !map.has(key)) map.delete(map.keys().next().value!) // it holds some
  map.set(key, value)
}
