import i18next from 'i18next'
import { useMemo, useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import { localeOf } from './preferences'

const formatters = new Map<string, unknown>()

/** Intl's formatters are slow to make: one each. */
function made<T>(key: string, make: () => T): T {
  const found = formatters.get(key)
  if (found) return found as T
  const fresh = make()
  formatters.set(key, fresh)
  return fresh
}

function formatsOf(language: string) {
  const locale = localeOf(language)
  const number = (options: Intl.NumberFormatOptions) =>
    made(`n:${locale}:${JSON.stringify(options)}`, () => new Intl.NumberFormat(locale, options))
  const date = (options: Intl.DateTimeFormatOptions) =>
    made(`d:${locale}:${JSON.stringify(options)}`, () => new Intl.DateTimeFormat(locale, options))
  const relative = made(`r:${locale}`, () => new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'narrow' }))

  const unit = (value: number, unit: string, digits = 0) =>
    number({
      style: 'unit',
      unit,
      unitDisplay: language === 'en' ? 'narrow' : 'short',
      maximumFractionDigits: digits,
    }).format(value)

  const format = {
    number: (value: number, digits = 0) => number({ maximumFractionDigits: digits }).format(value),
    compact: (value: number) => number({ notation: 'compact', maximumFractionDigits: 1 }).format(value),
    percent: (value: number) => number({ style: 'percent', maximumFractionDigits: 0 }).format(value),
    money: (usd: number) =>
      number({
        style: 'currency',
        currency: 'USD',
        currencyDisplay: 'narrowSymbol',
        minimumFractionDigits: 2,
        maximumFractionDigits: usd !== 0 && Math.abs(usd) < 0.1 ? 4 : 2,
      }).format(usd),
    bytes: (n: number) => {
      if (n < 1000) return unit(n, 'byte')
      if (n < 1e6) return unit(n / 1e3, 'kilobyte', 1)
      if (n < 1e9) return unit(n / 1e6, 'megabyte', 1)
      return unit(n / 1e9, 'gigabyte', 1)
    },
    /** A length of time in milliseconds: "850ms", "12.4s", "3m 05s", "2h 10m". */
    duration: (ms: number) => {
      if (ms < 1000) return unit(Math.max(0, Math.round(ms)), 'millisecond')
      const s = ms / 1000
      if (s < 60) return unit(s, 'second', s < 10 ? 1 : 0)
      const parts = (big: number, bigUnit: string, small: number, smallUnit: string) =>
        small ? `${unit(big, bigUnit)} ${unit(small, smallUnit)}` : unit(big, bigUnit)
      const whole = Math.floor(s)
      if (whole < 3600) return parts(Math.floor(whole / 60), 'minute', whole % 60, 'second')
      if (whole < 86_400) return parts(Math.floor(whole / 3600), 'hour', Math.floor((whole % 3600) / 60), 'minute')
      return parts(Math.floor(whole / 86_400), 'day', Math.floor((whole % 86_400) / 3600), 'hour')
    },
    dateTime: (at: number) => date({ dateStyle: 'medium', timeStyle: 'medium' }).format(at),
    /** Day and time of a time zone; of this browser's if it does not know that one. */
    dayTime: (at: number, timeZone: string) => {
      const options = { weekday: 'long', day: 'numeric', month: 'long', hour: '2-digit', minute: '2-digit' } as const
      try {
        return date({ ...options, timeZone }).format(at)
      } catch {
        return date(options).format(at)
      }
    },
    /** The name of a day of the week; 0 is Sunday. */
    weekday: (day: number) => date({ weekday: 'long', timeZone: 'UTC' }).format(Date.UTC(2023, 0, 1 + day)),
    shortTime: (at: number) => date({ hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(at),
    relative: (at: number, now: number) => {
      const s = Math.round((at - now) / 1000)
      const size = Math.abs(s)
      if (size < 3) return relative.format(0, 'second') // clocks differ, and now is a second old
      if (size < 60) return relative.format(s, 'second')
      if (size < 3600) return relative.format(Math.trunc(s / 60), 'minute')
      if (size < 86_400) return relative.format(Math.round(s / 3600), 'hour')
      if (size < 2_592_000) return relative.format(Math.round(s / 86_400), 'day')
      return date({ dateStyle: 'medium' }).format(at)
    },
  }
  return format
}

export type Formats = ReturnType<typeof formatsOf>

/** Numbers, dates and lengths of time in the chosen language. */
export function useFormat(): Formats {
  const { i18n } = useTranslation()
  return useMemo(() => formatsOf(i18n.language), [i18n.language])
}

export const currentFormat = () => formatsOf(i18next.language)

// One clock for the whole page: everything relative moves together.
let now = Date.now()
const watchers = new Set<() => void>()
let clock: ReturnType<typeof setInterval> | undefined

function watch(listener: () => void) {
  watchers.add(listener)
  clock ??= setInterval(() => {
    now = Date.now()
    for (const notify of watchers) notify()
  }, 1000)
  return () => {
    watchers.delete(listener)
    if (watchers.size > 0) return
    clearInterval(clock)
    clock = undefined
  }
}

/** The time, once a second. */
export const useNow = () => useSyncExternalStore(watch, () => now)

/** UUIDv7s begin alike: people tell ids apart by their ends. */
export const shortId = (id: string) => (uuid.test(id) ? id.slice(-8) : id)
const uuid = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i
