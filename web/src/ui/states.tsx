import { CircleAlert, WifiOff } from 'lucide-react'
import type { ComponentType, ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError } from '@/api/client'
import { say, sayError } from '@/i18n/said'
import { cn } from '@/lib/cn'
import { Button } from './button'

/** Nothing here yet: says why, and what to do next. */
export function Empty({
  icon: Icon,
  title,
  children,
  action,
}: {
  icon: ComponentType<{ className?: string }>
  title: string
  children?: ReactNode
  action?: ReactNode
}) {
  return (
    <div className="flex flex-col items-center gap-2 px-6 py-14 text-center">
      <span className="mb-2 grid size-11 place-items-center rounded-full bg-accent-soft text-accent-strong">
        <Icon className="size-5" aria-hidden />
      </span>
      <p className="text-[15px] font-semibold">{title}</p>
      {children && <div className="max-w-md text-ink-2">{children}</div>}
      {action && <div className="mt-3">{action}</div>}
    </div>
  )
}

/** What happened, and what to do. */
export function Failure({ error, retry, className }: { error: unknown; retry?: () => void; className?: string }) {
  const { t } = useTranslation()
  const known = error instanceof ApiError
  const offline = known && error.offline
  const Icon = offline ? WifiOff : CircleAlert
  return (
    <div
      role="alert"
      className={cn('flex items-start gap-3 rounded-card border border-bad/30 bg-bad-soft p-4', className)}
    >
      <Icon className="mt-0.5 size-4 shrink-0 text-bad" aria-hidden />
      <div className="min-w-0 flex-1">
        <p className="font-medium text-ink">
          {offline ? t('ui.failure.offline') : known ? sayError(error) : t('ui.failure.unexpected')}
        </p>
        <p className="mt-0.5 text-ink-2">
          {offline ? t('ui.failure.offlineHint') : known ? t(hintOf(error)) : t('ui.failure.unexpectedHint')}
        </p>
        {known && error.details.length > 0 && (
          <ul className="mt-2 list-disc pl-5 text-ink-2">
            {error.details.map((d) => (
              <li key={d.field}>
                <code className="font-mono text-xs">{d.field}</code> {say(d.message)}
              </li>
            ))}
          </ul>
        )}
        {known && error.requestId && (
          <p className="mt-2 font-mono text-2xs text-ink-3">{t('ui.failure.requestId', { id: error.requestId })}</p>
        )}
      </div>
      {retry && (
        <Button size="sm" onClick={retry}>
          {t('ui.retry')}
        </Button>
      )}
    </div>
  )
}

function hintOf(error: ApiError) {
  if (error.status === 401) return 'ui.failure.signIn' as const
  if (error.status === 403) return 'ui.failure.forbidden' as const
  if (error.status === 404) return 'ui.failure.notFound' as const
  if (error.status === 409) return 'ui.failure.conflict' as const
  if (error.code === 'membridge_job_failed') return 'ui.failure.agent' as const
  if (error.status === 502) return 'ui.failure.membridge' as const
  if (error.status >= 500) return 'ui.failure.server' as const
  return 'ui.failure.request' as const
}

/** The shape of what is being loaded; invisible for the first 300 ms. */
export const Skeleton = ({ className }: { className?: string }) => (
  <div aria-hidden className={cn('late breathe rounded-md bg-idle-soft', className)} />
)

export function SkeletonRows({ rows = 6 }: { rows?: number }) {
  const { t } = useTranslation()
  return (
    <div className="space-y-3 p-4" role="status">
      <span className="sr-only">{t('ui.loading')}</span>
      {Array.from({ length: rows }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all the same
        <Skeleton key={i} className="h-5 w-full" />
      ))}
    </div>
  )
}

/** One of loading, failed, empty or there. Data that is there stays while it is read again. */
export function Loaded<T>({
  query,
  skeleton,
  empty,
  children,
}: {
  query: { data: T | undefined; error: unknown; isPending: boolean; refetch: () => unknown }
  skeleton?: ReactNode
  empty?: { when: (data: T) => boolean; show: ReactNode }
  children: (data: T) => ReactNode
}) {
  const { data, error } = query
  if (data === undefined) {
    if (error) return <Failure error={error} retry={() => void query.refetch()} className="m-4" />
    return skeleton ?? <SkeletonRows />
  }
  if (empty?.when(data)) return empty.show
  return children(data)
}
