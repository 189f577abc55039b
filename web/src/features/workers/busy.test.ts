import { expect, it } from 'vitest'
import type { Lease } from '@/api/client'
import { busyFrom } from './busy'

const minute = 60_000
const now = 1_800_000_000_000
const lease = (from: number, to: number | null) =>
  ({
    started_at: now - from * minute,
    last_heartbeat: now - (to ?? 0) * minute,
    status: to === null ? 'active' : 'released',
  }) as Lease

it('says how many slots were in use', () => {
  const { times, values } = busyFrom([lease(4, null), lease(20, 10)], true, now)
  expect(times).toHaveLength(30)
  expect(values.slice(-2)).toEqual([1, 1])
  expect(values.at(-3)).toBe(0)
  expect(values.reduce((a, b) => a + b, 0)).toBeCloseTo(7) // 14 minutes in steps of two
})

it('reaches as far back as there are leases', () => {
  expect(busyFrom([lease(5 * 60, 4 * 60)], true, now).times).toHaveLength(36)
  expect(busyFrom([lease(2 * 24 * 60, null)], true, now).times).toHaveLength(42)
  // Of what is left out nothing is said.
  expect(busyFrom([lease(5 * 60, 4 * 60)], false, now).times).toHaveLength(30)
})
