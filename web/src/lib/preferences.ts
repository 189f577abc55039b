import { useSyncExternalStore } from 'react'

/** What a person chose for this browser. public/boot.js reads the same names before the first paint. */
export type Theme = 'system' | 'light' | 'dark'
export const languages = ['en', 'uk'] as const
export type Language = (typeof languages)[number]

const listeners = new Set<() => void>()

function read(name: string): string | null {
  try {
    return localStorage.getItem(`bloom.${name}`)
  } catch {
    return null // storage is switched off: choices last as long as the page
  }
}

function write(name: string, value: string | null) {
  try {
    if (value === null) localStorage.removeItem(`bloom.${name}`)
    else localStorage.setItem(`bloom.${name}`, value)
  } catch {
    // see read
  }
}

function storedTheme(): Theme {
  const theme = read('theme')
  return theme === 'light' || theme === 'dark' ? theme : 'system'
}

let theme = storedTheme()

function applyTheme() {
  const dark = theme === 'dark' || (theme === 'system' && matchMedia('(prefers-color-scheme: dark)').matches)
  document.documentElement.dataset.theme = dark ? 'dark' : 'light'
  for (const listener of listeners) listener()
}

export function setTheme(next: Theme) {
  theme = next
  write('theme', next === 'system' ? null : next)
  applyTheme()
}

export function watchSystemTheme() {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme)
  addEventListener('storage', (event) => {
    if (event.key !== 'bloom.theme') return
    theme = storedTheme()
    applyTheme()
  })
  applyTheme()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const useTheme = (): Theme => useSyncExternalStore(subscribe, () => theme)

/** The theme that is shown: charts draw again when it changes. */
export const useShownTheme = () =>
  useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme ?? 'light')

export function firstLanguage(): Language {
  const stored = read('language')
  if (stored === 'en' || stored === 'uk') return stored
  return /^uk\b/i.test(navigator.language) ? 'uk' : 'en'
}

/** How dates and numbers are written: as in the browser's own region where it speaks the language. */
export const localeOf = (language: string) =>
  navigator.languages.find((locale) => locale.split('-')[0] === language) ?? language

/** Whether this browser shows a notification when a task ends. */
export const wantsNotifications = () => read('notify') === 'yes'
/** Whether it wants to and may. */
export const notifies = () =>
  wantsNotifications() && 'Notification' in globalThis && Notification.permission === 'granted'
export const rememberNotifications = (on: boolean) => write('notify', on ? 'yes' : null)

/** The columns of the list of tasks; null where nothing was chosen. */
export const chosenColumns = () => read('columns')?.split(',') ?? null
export const rememberColumns = (names: string[] | null) => write('columns', names?.join(',') ?? null)

export const rememberLanguage = (language: Language) => write('language', language)
