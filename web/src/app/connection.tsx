import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { ApiError } from '@/api/client'
import { health } from '@/api/queries'
import { cn } from '@/lib/cn'
import { useLiveState } from '@/live/live'

/** Whether what is shown is current: the stream of changes says little about the server behind it. */
function useConnection() {
  const state = useLiveState()
  const { data, error } = useQuery(health)
  if (state === 'reconnecting') return state
  const refused = error instanceof ApiError && error.status === 429
  return error && !refused ? 'silent' : data?.status === 'degraded' ? 'degraded' : state
}

/** Whether what is shown is current. Always in sight. */
export function Connection() {
  const { t } = useTranslation()
  const state = useConnection()
  const { data } = useQuery(health)
  const tone = state === 'live' ? 'text-good' : state === 'connecting' ? 'text-ink-3' : 'text-warn'
  return (
    <div role="status" className="flex items-center gap-2 border-t px-2.5 pt-3 text-xs text-ink-2">
      <span aria-hidden className={cn('size-2 rounded-full bg-current', tone, state !== 'live' && 'breathe')} />
      <span>{t(`app.live.${state}`)}</span>
      {data && <span className="ml-auto text-ink-3">{data.storage === 'sqlite' ? 'SQLite' : 'PostgreSQL'}</span>}
    </div>
  )
}

/** On narrow screens the navigation is hidden: what is not current is said above the page. */
export function Reconnecting() {
  const { t } = useTranslation()
  const state = useConnection()
  if (state === 'live' || state === 'connecting') return null
  return (
    <div
      role="status"
      className="flex items-center gap-2 border-b bg-warn-soft px-4 py-1.5 text-xs text-warn lg:hidden"
    >
      <span aria-hidden className="breathe size-2 rounded-full bg-current" />
      {t(`app.live.${state}`)}
    </div>
  )
}
