import type { Item, Step } from './conversation'

/** What stands for an attempt of a task that has several, above what happened in it. */
export interface Attempt {
  kind: 'attempt'
  key: string
  epoch: number
  /** Which one it is, from 1. */
  n: number
  worker: string
  from: number
  /** What it ended with; null while it goes on. */
  end: Step | null
  open: boolean
}

const ends = new Set(['retried', 'released', 'expired', 'completed', 'failed', 'dead', 'cancelled'])

/** The attempts of a task. The newest is open unless `chosen` says otherwise. */
export function attemptsOf(items: Item[], chosen: ReadonlyMap<number, boolean>): Attempt[] {
  const leases = items.filter((item): item is Step => item.kind === 'step' && item.type === 'leased')
  const newest = leases.at(-1)?.epoch
  const groups = new Map<number, Attempt>()
  for (const [i, { epoch, at, data }] of leases.entries())
    groups.set(epoch, {
      kind: 'attempt',
      key: `attempt-${epoch}`,
      epoch,
      n: i + 1,
      worker: typeof data.worker_id === 'string' ? data.worker_id : '',
      from: at,
      end: null,
      open: chosen.get(epoch) ?? epoch === newest,
    })
  for (const item of items) {
    const group = groups.get(item.epoch)
    if (group && item.kind === 'step' && ends.has(item.type)) group.end = item
  }
  return [...groups.values()]
}

/** The rows of a conversation. Several attempts are groups: of a closed one only its head is a row. */
export function rowsOf(items: Item[], chosen: ReadonlyMap<number, boolean>): (Item | Attempt)[] {
  const attempts = attemptsOf(items, chosen)
  if (attempts.length < 2) return items
  const groups = new Map(attempts.map((attempt) => [attempt.epoch, attempt]))
  return items.flatMap((item) => {
    const group = groups.get(item.epoch)
    if (!group) return [item]
    const head = item.kind === 'step' && item.type === 'leased' ? [group] : []
    return group.open ? [...head, item] : head
  })
}
