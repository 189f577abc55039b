import type { TFunction } from 'i18next'
import type { Schedule } from '@/api/client'
import type { Formats } from '@/lib/format'

/** The ways to say when that the form offers. */
export const rhythms = ['daily', 'weekdays', 'weekly', 'monthly', 'hourly', 'every', 'cron'] as const
export type Rhythm = (typeof rhythms)[number]

export interface When {
  rhythm: Rhythm
  /** HH:MM; of hourly only the minutes count. */
  time: string
  /** Of the week, 0 is Sunday; of the month, from 1 on. */
  day: number
  /** The interval. */
  every: number
  unit: Unit
  cron: string
}

export const units = { minutes: 60, hours: 3600, days: 86_400 } as const
export type Unit = keyof typeof units

export const firstWhen = (): When => ({
  rhythm: 'daily',
  time: '09:00',
  day: 1,
  every: 6,
  unit: 'hours',
  cron: '0 9 * * *',
})

const named: Record<string, string> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
}

type Times = Pick<Schedule, 'cron' | 'every_sec'>

/** What a schedule says, as the form has it. What it cannot say more simply is cron. */
export function whenOf({ cron = '', every_sec = 0 }: Times): When {
  const when = firstWhen()
  if (every_sec > 0) {
    const unit = (['days', 'hours', 'minutes'] as const).find((u) => every_sec % units[u] === 0)
    // Seconds that are no whole minutes were not set here: they stay as they are.
    return { ...when, rhythm: 'every', unit: unit ?? 'minutes', every: every_sec / units[unit ?? 'minutes'] }
  }
  const parts = /^(\d+) (\d+|\*) (\d+|\*) \* ([0-7]|1-5|\*)$/.exec(
    named[cron.trim()] ?? cron.trim().replace(/\s+/g, ' '),
  )
  const [, minute = '', hour = '', date = '', day = ''] = parts ?? []
  const is = (rhythm: Rhythm, of: Partial<When> = {}): When => ({
    ...when,
    ...of,
    rhythm,
    cron,
    time: `${(hour === '*' ? '0' : hour).padStart(2, '0')}:${minute.padStart(2, '0')}`,
  })
  if (!parts || Number(minute) > 59 || Number(hour === '*' ? 0 : hour) > 23) return { ...when, rhythm: 'cron', cron }
  if (hour === '*') return date === '*' && day === '*' ? is('hourly') : { ...when, rhythm: 'cron', cron }
  if (date === '*' && day === '*') return is('daily')
  if (date === '*' && day === '1-5') return is('weekdays')
  if (date === '*') return is('weekly', { day: Number(day) % 7 })
  if (day === '*') return is('monthly', { day: Number(date) })
  return { ...when, rhythm: 'cron', cron }
}

/** What is sent. */
export function timesOf(when: When): Times {
  const [hour = 0, minute = 0] = when.time.split(':').map(Number)
  switch (when.rhythm) {
    case 'every':
      return { every_sec: Math.round(when.every * units[when.unit]) }
    case 'hourly':
      return { cron: `${minute} * * * *` }
    case 'daily':
      return { cron: `${minute} ${hour} * * *` }
    case 'weekdays':
      return { cron: `${minute} ${hour} * * 1-5` }
    case 'weekly':
      return { cron: `${minute} ${hour} * * ${when.day}` }
    case 'monthly':
      return { cron: `${minute} ${hour} ${when.day} * *` }
    case 'cron':
      return { cron: when.cron.trim() }
  }
}

/** When, in words; cron where there are no simpler ones. */
export function sayWhen(schedule: Times, t: TFunction, format: Formats): string {
  const { rhythm, time, day, cron } = whenOf(schedule)
  switch (rhythm) {
    case 'every':
      return t('schedules.said.every', { time: format.duration((schedule.every_sec ?? 0) * 1000) })
    case 'hourly':
      return t('schedules.said.hourly', { minute: time.slice(3) })
    case 'daily':
      return t('schedules.said.daily', { time })
    case 'weekdays':
      return t('schedules.said.weekdays', { time })
    case 'weekly':
      return t('schedules.said.weekly', { time, day: format.weekday(day) })
    case 'monthly':
      return t('schedules.said.monthly', { time, day })
    case 'cron':
      return t('schedules.said.cron', { cron })
  }
}
