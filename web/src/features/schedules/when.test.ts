import { expect, it } from 'vitest'
import { timesOf, whenOf } from './when'

it.each([
  ['30 9 * * *', 'daily', '09:30'],
  ['0 3 * * 1-5', 'weekdays', '03:00'],
  ['15 18 * * 5', 'weekly', '18:15'],
  ['0 0 1 * *', 'monthly', '00:00'],
  ['5 * * * *', 'hourly', '00:05'],
])('%s is said simply, and sent as it was', (cron, rhythm, time) => {
  const when = whenOf({ cron })
  expect(when).toMatchObject({ rhythm, time })
  expect(timesOf(when)).toEqual({ cron })
})

it.each(['*/5 * * * *', '0 3 1 * 1', '0 25 * * *', '0 3 * * 1,3', '@yearly'])('%s stays cron', (cron) => {
  const when = whenOf({ cron })
  expect(when.rhythm).toBe('cron')
  expect(timesOf(when)).toEqual({ cron })
})

it.each([60, 5400, 21_600, 172_800])('an interval of %d seconds stays', (every_sec) => {
  expect(timesOf(whenOf({ every_sec }))).toEqual({ every_sec })
})

it('names of cron are understood', () => {
  expect(whenOf({ cron: '@weekly' })).toMatchObject({ rhythm: 'weekly', day: 0, time: '00:00' })
})
