import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data } from '@/api/client'
import { keys } from '@/api/queries'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { Ago } from '@/ui/facts'
import { Input, Select } from '@/ui/field'
import { Failure, Skeleton } from '@/ui/states'

const levels: readonly string[] = ['DEBUG', 'INFO', 'WARN', 'ERROR']

/** The last log lines that a worker reported, read again as often as it reports them. */
export function WorkerLogs({ id }: { id: string }) {
  const { t } = useTranslation()
  const format = useFormat()
  const query = useQuery({
    queryKey: [...keys.workers, id, 'logs'],
    queryFn: () => data(api.GET('/api/runtime/workers/{id}/logs', { params: { path: { id } } })),
    refetchInterval: 3_000,
  })
  const list = useRef<HTMLUListElement>(null)
  // The end is followed until somebody scrolls away from it.
  const follows = useRef(true)
  const [text, setText] = useState('')
  const [least, setLeast] = useState(0)
  const all = query.data?.lines ?? []
  const part = text.trim().toLowerCase()
  const lines = all.filter(
    (line) => Math.max(0, levels.indexOf(line.level)) >= least && line.text.toLowerCase().includes(part),
  )
  const newest = lines.at(-1)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new line is scrolled to, in the list and not on the page
  useEffect(() => {
    if (list.current && follows.current) list.current.scrollTop = list.current.scrollHeight
  }, [newest?.at, newest?.text, lines.length])
  if (query.error && !query.data) return <Failure error={query.error} retry={() => void query.refetch()} />
  if (!query.data) return <Skeleton className="h-40" />
  if (all.length === 0) return <p className="py-6 text-center text-ink-2">{t('workers.noLogs')}</p>
  return (
    <>
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <span className="w-56 max-sm:flex-1">
          <Input
            type="search"
            aria-label={t('workers.logFilter')}
            placeholder={t('workers.logFilter')}
            value={text}
            onChange={(e) => setText(e.target.value)}
          />
        </span>
        <Select
          aria-label={t('workers.logLevel')}
          value={least}
          onChange={(e) => setLeast(Number(e.target.value))}
          className="w-40"
        >
          {levels.map((level, i) => (
            <option key={level} value={i}>
              {t(`workers.levels.${level as 'INFO'}`)}
            </option>
          ))}
        </Select>
        <p className="ml-auto text-xs text-ink-3">
          {t('workers.logsAt')} <Ago at={query.data.updated_at} />
        </p>
      </div>
      {lines.length === 0 && <p className="py-6 text-center text-ink-2">{t('workers.noLogMatches')}</p>}
      <ul
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard
        tabIndex={0}
        ref={list}
        onScroll={({ currentTarget: l }) => {
          follows.current = l.scrollHeight - l.scrollTop - l.clientHeight < 24
        }}
        aria-label={t('workers.logs')}
        hidden={lines.length === 0}
        className="max-h-[60dvh] overflow-y-auto rounded-lg border bg-sunken p-3 font-mono text-xs leading-5"
      >
        {lines.map((line, i) => (
          <li
            // biome-ignore lint/suspicious/noArrayIndexKey: equal lines are told apart by nothing else
            key={`${line.at} ${i}`}
            className="wrap-anywhere whitespace-pre-wrap"
          >
            <time title={format.dateTime(line.at)} className="text-ink-3">
              {format.shortTime(line.at)}
            </time>{' '}
            <span
              className={cn(
                'font-semibold',
                line.level === 'ERROR' ? 'text-bad' : line.level === 'WARN' ? 'text-warn' : 'text-ink-2',
              )}
            >
              {line.level}
            </span>{' '}
            <code>{line.text}</code>
          </li>
        ))}
      </ul>
    </>
  )
}
