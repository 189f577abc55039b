import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type SeriesPoint as Point } from '@/api/client'
import { keys } from '@/api/queries'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { Panel } from '@/ui/card'
import { Select } from '@/ui/field'
import { Failure } from '@/ui/states'

const Chart = lazy(() => import('@/ui/chart'))

const minute = 60
/** Seconds: how long each period is, and one bar of it. */
const periods = {
  hour: { length: 60 * minute, step: minute },
  day: { length: 24 * 60 * minute, step: 30 * minute },
  week: { length: 7 * 24 * 60 * minute, step: 240 * minute },
} as const
type Period = keyof typeof periods

const measures = ['ended', 'queue', 'wait', 'tokens', 'cost'] as const
type Measure = (typeof measures)[number]

export const series = (period: Period) => ({
  queryKey: [...keys.stats, 'series', period],
  queryFn: () => {
    const { length, step } = periods[period]
    const from = Date.now() - length * 1000
    return data(api.GET('/api/runtime/stats/series', { params: { query: { from, step } } }))
  },
  refetchInterval: 60_000,
})

const isEmpty = (p: Point) =>
  p.created + p.completed + p.failed + p.dead + p.cancelled + p.tokens_used === 0 && !p.queued && !p.running

/** The points without the time before anything happened, but never fewer than a quarter of them. */
export const fitted = (points: Point[]) => {
  const first = points.findIndex((p) => !isEmpty(p))
  return points.slice(Math.max(0, Math.min(first - 1, Math.floor(points.length * 0.75))))
}

/** The shortest period that has all of what happened in the last day, or else the longest one. */
export function periodOf(day: Point[] | undefined, now = Date.now()): Period {
  const first = day?.find((p) => !isEmpty(p))
  if (!day || !first) return day ? 'week' : 'day'
  return first.at > now - periods.hour.length * 1000 ? 'hour' : 'day'
}

/** What happened to tasks over time: how they ended, how long they waited, what they used. */
export function History() {
  const { t } = useTranslation()
  const format = useFormat()
  const [chosen, setPeriod] = useState<Period>()
  const [measure, setMeasure] = useState<Measure>('ended')
  const day = useQuery(series('day')).data?.points
  const period = chosen ?? periodOf(day)
  const query = useQuery({ ...series(period), enabled: chosen !== undefined || day !== undefined })
  const points = useMemo(() => query.data && fitted(query.data.points), [query.data])
  const running = query.data?.now.usage
  const { times, lines } = useMemo(() => {
    const list = points ?? []
    const line = (label: string, colour: string, of: (p: (typeof list)[number]) => number, now = 0) => ({
      label,
      colour,
      values: list.map((p, i) => of(p) + (i === list.length - 1 ? now : 0)),
    })
    const all = {
      ended: [
        line(t('overview.completed'), '--good', (p) => p.completed),
        line(t('overview.failed'), '--bad', (p) => p.failed + p.dead),
        line(t('overview.cancelled'), '--warn', (p) => p.cancelled),
      ],
      queue: [
        line(t('overview.running'), '--info', (p) => p.running ?? 0),
        line(t('overview.queued'), '--warn', (p) => p.queued ?? 0),
      ],
      wait: [line(t('overview.measure.wait'), '--info', (p) => (p.oldest_wait_ms ?? 0) / 1000)],
      tokens: [line(t('overview.measure.tokens'), '--accent', (p) => p.tokens_used, running?.tokens_used)],
      cost: [line(t('overview.measure.cost'), '--accent', (p) => p.cost_usd, running?.cost_usd)],
    }
    return { times: list.map((p) => p.at), lines: all[measure] }
  }, [points, running, measure, t])
  const total = lines.reduce((sum, l) => sum + l.values.reduce((a, b) => a + b, 0), 0)
  const most = Math.max(0, ...lines.flatMap((l) => l.values))
  const said = {
    ended: format.number(total),
    queue: '', // what is sampled has no sum
    wait: format.duration(most * 1000),
    tokens: format.compact(total),
    cost: format.money(total),
  }[measure]
  return (
    <Panel
      title={t('overview.history')}
      actions={
        <Select
          aria-label={t('overview.period.label')}
          value={period}
          onChange={(e) => setPeriod(e.target.value as Period)}
          className="h-8 w-32 text-[13px]"
        >
          {(Object.keys(periods) as Period[]).map((p) => (
            <option key={p} value={p}>
              {t(`overview.period.${p}`)}
            </option>
          ))}
        </Select>
      }
    >
      <fieldset
        aria-label={t('overview.measure.label')}
        className="-mx-1 mb-3 flex min-w-0 gap-0.5 overflow-x-auto px-1"
      >
        {measures.map((m) => (
          <button
            key={m}
            type="button"
            aria-pressed={m === measure}
            onClick={() => setMeasure(m)}
            className={cn(
              'h-7 shrink-0 rounded-full px-2.5 text-xs font-medium',
              m === measure ? 'bg-accent-soft text-accent-strong' : 'text-ink-2 hover:bg-idle-soft',
            )}
          >
            {t(`overview.measure.${m}`)}
          </button>
        ))}
        <span className="ml-auto self-center text-lg font-semibold">{total > 0 && said}</span>
      </fieldset>
      {lines.length > 1 && total > 0 && (
        <ul className="mb-2 flex flex-wrap gap-x-4 gap-y-1 text-xs text-ink-2">
          {lines.map((line) => (
            <li key={line.label} className="flex items-center gap-1.5">
              <span aria-hidden className="size-2 rounded-full" style={{ background: `var(${line.colour})` }} />
              {line.label}
              {measure === 'ended' && (
                <span className="tabular text-ink-3">{format.number(line.values.reduce((a, b) => a + b, 0))}</span>
              )}
            </li>
          ))}
        </ul>
      )}
      <div className="h-44">
        {query.error && !points ? (
          <Failure error={query.error} retry={() => void query.refetch()} />
        ) : points && total === 0 ? (
          <p className="grid h-full place-items-center text-ink-3">{t('overview.nothingYet')}</p>
        ) : (
          points && (
            <Suspense>
              <Chart label={t(`overview.measure.${measure}`)} times={times} series={lines} height={176} />
            </Suspense>
          )
        )}
      </div>
    </Panel>
  )
}
