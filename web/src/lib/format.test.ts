import i18next from 'i18next'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { setLanguage, startI18n } from '@/i18n'
import { currentFormat } from './format'
import { localeOf } from './preferences'

/** Spaces that do not break are spaces here. */
const plain = (text: string) => text.replace(/[\u00a0\u202f]/g, ' ')

const at = new Date(2026, 10, 22, 15, 4, 5).getTime()
const minute = 60_000

beforeAll(startI18n)
afterEach(() => vi.restoreAllMocks())

const speaks = (...languages: string[]) => vi.spyOn(navigator, 'languages', 'get').mockReturnValue(languages)

describe('formats', () => {
  it.each([
    ['number', (f) => f.number(1_234_567.25, 2), '1,234,567.25', '1 234 567,25'],
    ['compact', (f) => f.compact(12_345), '12.3K', '12,3 тис.'],
    ['percent', (f) => f.percent(0.256), '26%', '26%'],
    ['money', (f) => f.money(1234.5), '$1,234.50', '1 234,50 $'],
    ['small money', (f) => f.money(0.0123), '$0.0123', '0,0123 $'],
    ['bytes', (f) => f.bytes(1_234_567), '1.2MB', '1,2 МБ'],
    ['milliseconds', (f) => f.duration(850), '850ms', '850 мс'],
    ['seconds', (f) => f.duration(2400), '2.4s', '2,4 с'],
    ['minutes', (f) => f.duration(3 * minute + 5000), '3m 5s', '3 хв 5 с'],
    ['hours', (f) => f.duration(130 * minute), '2h 10m', '2 год 10 хв'],
    ['date', (f) => f.dateTime(at), 'Nov 22, 2026, 3:04:05 PM', '22 лист. 2026 р., 15:04:05'],
    ['time', (f) => f.shortTime(at), '03:04:05 PM', '15:04:05'],
    ['just now', (f) => f.relative(at, at + 1000), 'now', 'зараз'],
    ['ago', (f) => f.relative(at - 5 * minute, at), '5m ago', '5 хв тому'],
    ['in', (f) => f.relative(at + 120 * minute, at), 'in 2h', 'за 2 год'],
    ['yesterday', (f) => f.relative(at - 1440 * minute, at), 'yesterday', 'учора'],
  ] satisfies [string, (f: ReturnType<typeof currentFormat>) => string, string, string][])(
    '%s is written as in the language',
    async (_, format, english, ukrainian) => {
      speaks('en-US', 'uk-UA')
      await setLanguage('en', false)
      expect(plain(format(currentFormat()))).toBe(english)
      await setLanguage('uk', false)
      expect(plain(format(currentFormat()))).toBe(ukrainian)
    },
  )

  it('are those of the browser’s region', async () => {
    speaks('uk-UA', 'en-GB')
    expect([localeOf('en'), localeOf('uk')]).toEqual(['en-GB', 'uk-UA'])
    await setLanguage('en', false)
    expect(plain(currentFormat().dateTime(at))).toBe('22 Nov 2026, 15:04:05')
    speaks('de-DE')
    expect(localeOf('uk')).toBe('uk')
  })
})

describe('plural forms', () => {
  it('are those of Ukrainian', async () => {
    await setLanguage('uk', false)
    const forms = (key: 'tasks.fresh' | 'overview.slots') => (count: number) =>
      i18next.t(key, { count, used: 0, all: count })
    expect([1, 21, 101].map(forms('tasks.fresh'))).toEqual(['1 нове завдання', '21 нове завдання', '101 нове завдання'])
    expect([2, 4, 22, 104].map(forms('tasks.fresh'))).toEqual([2, 4, 22, 104].map((n) => `${n} нові завдання`))
    expect([0, 5, 11, 12, 14, 20, 111].map(forms('tasks.fresh'))).toEqual(
      [0, 5, 11, 12, 14, 20, 111].map((n) => `${n} нових завдань`),
    )
    expect([1.5].map(forms('tasks.fresh'))).toEqual(['1.5 нового завдання'])
    expect([1, 2, 5].map(forms('overview.slots'))).toEqual(['0 з 1 місця', '0 з 2 місць', '0 з 5 місць'])
  })

  it('are those of English', async () => {
    await setLanguage('en', false)
    expect([0, 1, 2, 21].map((count) => i18next.t('tasks.fresh', { count }))).toEqual([
      '0 new tasks',
      '1 new task',
      '2 new tasks',
      '21 new tasks',
    ])
    expect([1, 2].map((count) => i18next.t('overview.slots', { count, used: 1, all: count }))).toEqual([
      '1 of 1 slot',
      '1 of 2 slots',
    ])
  })
})
