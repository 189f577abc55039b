import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data } from '@/api/client'
import { keys } from '@/api/queries'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { Ago } from '@/ui/facts'
import { Failure, Skeleton } from '@/ui/states'

/** The last log lines that a worker reported, read again as often as it reports them. */
export function WorkerLogs({ id }: { id: string }) {
  const { t } = useTranslation()
  const format = useFormat()
  const query = useQuery({
    queryKey: [...keys.workers, id, 'logs'],
    queryFn: () => data(api.GET('/api/runtime/workers/{id}/logs', { params: { path: { id } } })),
    refetchInterval: 3_000,
  })
  const end = useRef<HTMLLIElement>(null)
  const lines = query.data?.lines ?? []
  const newest = lines.at(-1)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new line is scrolled to
  useEffect(() => {
    // What it answers (a promise, in newer browsers) is no cleanup.
    end.current?.scrollIntoView?.({ block: 'nearest' })
  }, [newest?.at, newest?.text])
  if (query.error && !query.data) return <Failure error={query.error} retry={() => void query.refetch()} />
  if (!query.data) return <Skeleton className="h-40" />
  if (lines.length === 0) return <p className="py-6 text-center text-ink-2">{t('workers.noLogs')}</p>
  return (
    <>
      <p className="mb-2 text-xs text-ink-3">
        {t('workers.logsAt')} <Ago at={query.data.updated_at} />
      </p>
      <ul
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard
        tabIndex={0}
        aria-label={t('workers.logs')}
        className="max-h-[60dvh] overflow-y-auto rounded-lg border bg-sunken p-3 font-mono text-xs leading-5"
      >
        {lines.map((line, i) => (
          <li
            // biome-ignore lint/suspicious/noArrayIndexKey: equal lines are told apart by nothing else
            key={`${line.at} ${i}`}
            ref={i === lines.length - 1 ? end : undefined}
            className="wrap-anywhere whitespace-pre-wrap"
          >
            <span className="text-ink-3">{format.dateTime(line.at)}</span>{' '}
            <span
              className={cn(
                'font-semibold',
                line.level === 'ERROR' ? 'text-bad' : line.level === 'WARN' ? 'text-warn' : 'text-ink-2',
              )}
            >
              {line.level}
            </span>{' '}
            {line.text}
          </li>
        ))}
      </ul>
    </>
  )
}
