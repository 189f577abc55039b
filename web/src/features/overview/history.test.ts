import { describe, expect, it } from 'vitest'
import type { SeriesPoint } from '@/api/client'
import { fitted, periodOf } from './history'

const minute = 60_000
const now = 1_800_000_000_000
/** Half-hours of a day, of which those in `busy`, counted from the last, completed a task. */
const day = (...busy: number[]) =>
  Array.from(
    { length: 48 },
    (_, i) =>
      ({
        at: now - (47 - i) * 30 * minute,
        created: 0,
        started: 0,
        completed: busy.includes(47 - i) ? 1 : 0,
        failed: 0,
        dead: 0,
        cancelled: 0,
        tokens_used: 0,
        queued: null,
        running: null,
      }) as SeriesPoint,
  )

describe('the range of the chart', () => {
  it('is the shortest period with all of the last day, and a week where the day was quiet', () => {
    expect(periodOf(day(0, 1), now)).toBe('hour')
    expect(periodOf(day(0, 20), now)).toBe('day')
    expect(periodOf(day(), now)).toBe('week')
  })
  it('begins where something happened, but does not stretch a few bars', () => {
    expect(fitted(day(30, 2))).toHaveLength(32)
    expect(fitted(day(0))).toHaveLength(12)
    expect(fitted(day(47))).toHaveLength(48)
    expect(fitted(day())).toHaveLength(48)
  })
})
