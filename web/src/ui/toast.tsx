import { CircleAlert, CircleCheck, X } from 'lucide-react'
import { useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError } from '@/api/client'
import { sayError } from '@/i18n/said'
import { IconButton } from './button'

interface Toast {
  id: number
  tone: 'good' | 'bad'
  text: string
}

let toasts: Toast[] = []
let last = 0
const listeners = new Set<() => void>()

function change(next: Toast[]) {
  toasts = next
  for (const listener of listeners) listener()
}

const dismiss = (id: number) => change(toasts.filter((t) => t.id !== id))

/** Says that something is done, or that it failed, wherever the person is. */
export function toast(text: string, tone: Toast['tone'] = 'good') {
  const id = ++last
  change([...toasts.slice(-3), { id, tone, text }])
  setTimeout(() => dismiss(id), tone === 'bad' ? 12_000 : 7000)
}

/** What an error says to a person, in one sentence. */
export function useSayError() {
  const { t } = useTranslation()
  return (error: unknown) => {
    const known = error instanceof ApiError && !error.offline
    toast(known ? sayError(error) : t('ui.failure.offline'), 'bad')
  }
}

export function Toasts() {
  const { t } = useTranslation()
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => toasts,
  )
  return (
    <div
      aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-4 z-50 flex w-[min(24rem,calc(100vw-2rem))] flex-col gap-2"
    >
      {shown.map((item) => (
        <div
          key={item.id}
          className="rise pointer-events-auto flex items-start gap-2.5 rounded-lg border bg-raised py-2 pr-1.5 pl-3 shadow-float"
        >
          {item.tone === 'good' ? (
            <CircleCheck className="mt-1.5 size-4 shrink-0 text-good" aria-hidden />
          ) : (
            <CircleAlert className="mt-1.5 size-4 shrink-0 text-bad" aria-hidden />
          )}
          <p className="min-w-0 flex-1 py-1 text-[13px] wrap-anywhere">{item.text}</p>
          <IconButton label={t('ui.close')} small onClick={() => dismiss(item.id)}>
            <X className="size-3.5" aria-hidden />
          </IconButton>
        </div>
      ))}
    </div>
  )
}
