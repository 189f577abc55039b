import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, type ReactNode, Suspense, useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { Task, TaskStatus } from '@/api/client'
import { stats as statsQuery, workers as workersQuery } from '@/api/queries'
import { recentTasks } from '@/api/recent'
import { isFinal } from '@/features/task/events'
import { cn } from '@/lib/cn'
import { useFormat, useNow } from '@/lib/format'
import { TaskBadge } from '@/ui/badge'
import { Panel } from '@/ui/card'
import { Ago, Command } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Failure, Skeleton } from '@/ui/states'
import { Fleet } from './fleet'
import { ProblemList } from './problem-list'
import { ofStatus, useProblems } from './use-problems'

const Chart = lazy(() => import('@/ui/chart'))

export default function Overview() {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const stats = useQuery(statsQuery)
  const workers = useQuery(workersQuery)
  const recent = useQuery(recentTasks)
  const problems = useProblems()
  const by = stats.data?.tasks.by_status ?? {}
  const slots =
    workers.data?.filter((w) => w.status === 'online').reduce((n, w) => n + w.capabilities.max_concurrency, 0) ?? 0
  const active = stats.data?.leases.active ?? 0
  const started = useQuery(ofStatus('queued')).data?.filter((task) => task.run_at <= now) ?? []
  const oldest = started.length > 0 ? Math.min(...started.map((task) => task.created_at)) : null
  const empty = stats.data?.tasks.total === 0
  if (stats.error && !stats.data) {
    return (
      <Page title={t('overview.title')}>
        <Failure error={stats.error} retry={() => void stats.refetch()} />
      </Page>
    )
  }
  return (
    <Page title={t('overview.title')}>
      <div className="space-y-5">
        {problems === undefined ? (
          <Skeleton className="h-16" />
        ) : (
          (!empty || problems.length > 0) && <ProblemList problems={problems} />
        )}
        {empty && <FirstSteps workers={(workers.data?.length ?? 0) > 0} />}
        <div className="grid grid-cols-2 gap-3 md:grid-cols-3 xl:grid-cols-6">
          <Tile
            name={t('overview.queued')}
            value={format.number(by.queued ?? 0)}
            status="queued"
            note={oldest !== null && t('overview.oldest', { ago: format.duration(now - oldest) })}
          />
          <Tile
            name={t('overview.running')}
            value={format.number((by.running ?? 0) + (by.leased ?? 0))}
            status="running"
            note={slots > 0 && t('overview.slots', { used: active, all: slots })}
          />
          <Tile name={t('overview.completed')} value={format.number(by.completed ?? 0)} status="completed" />
          <Tile
            name={t('overview.failed')}
            value={format.number((by.failed ?? 0) + (by.dead ?? 0))}
            status="failed"
            bad={(by.failed ?? 0) + (by.dead ?? 0) > 0}
          />
          <Tile name={t('overview.cancelled')} value={format.number(by.cancelled ?? 0)} status="cancelled" />
          <Tile name={t('overview.total')} value={format.compact(stats.data?.tasks.total ?? 0)} />
        </div>
        <div className="grid gap-5 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
          <Throughput tasks={recent.data?.items ?? []} />
          <Panel
            title={t('overview.fleet')}
            actions={
              <Link to="/workers" className="text-xs font-medium text-accent-strong hover:underline">
                {t('overview.all')}
              </Link>
            }
          >
            <Fleet workers={workers.data ?? []} />
          </Panel>
        </div>
        <Latest tasks={recent.data?.items.slice(0, 8) ?? []} />
      </div>
    </Page>
  )
}

function Tile({
  name,
  value,
  note,
  status,
  bad,
}: {
  name: string
  value: string
  note?: ReactNode
  status?: TaskStatus
  bad?: boolean
}) {
  return (
    <Link
      to="/tasks"
      search={status ? { status } : {}}
      className="block rounded-card border bg-surface px-4 py-3 shadow-card transition-colors hover:border-line-strong"
    >
      <span className="block text-xs text-ink-3">{name}</span>
      <span className={cn('block text-2xl leading-8 font-semibold tracking-tight', bad && 'text-bad')}>{value}</span>
      <span className="block h-4 truncate text-xs text-ink-3">{note}</span>
    </Link>
  )
}

function FirstSteps({ workers }: { workers: boolean }) {
  const { t } = useTranslation()
  return (
    <Panel title={t('overview.first')}>
      <ol className="space-y-4">
        {!workers && (
          <li>
            <p className="mb-1.5 font-medium">{t('overview.firstWorker')}</p>
            <Command text={`bloom worker --runtime-url ${location.origin}`} />
          </li>
        )}
        <li>
          <p className="mb-1.5 font-medium">{t('overview.firstTask')}</p>
          <Command text={`bloom task run --url ${location.origin} "Write a haiku about durable queues"`} />
        </li>
      </ol>
    </Panel>
  )
}

const buckets = 24

/** How the newest tasks ended, over the time that they span. */
function Throughput({ tasks }: { tasks: Task[] }) {
  const { t } = useTranslation()
  const { times, series } = useMemo(() => {
    const ended = tasks.filter((task) => isFinal(task.status))
    const last = Math.max(...ended.map((task) => task.updated_at), 0)
    const first = Math.min(...ended.map((task) => task.updated_at), last)
    const width = widthOf((last - first) / buckets)
    // The last bar stands a little before the edge.
    const start = Math.floor(last / width) * width - (buckets - 2) * width
    const times = Array.from({ length: buckets }, (_, i) => start + i * width)
    const count = (statuses: string[]) => {
      const values = new Array<number>(buckets).fill(0)
      for (const task of ended) {
        const i = Math.floor((task.updated_at - start) / width)
        if (statuses.includes(task.status) && i >= 0) values[i] = (values[i] ?? 0) + 1
      }
      return values
    }
    return {
      times,
      series: [
        { label: t('overview.completed'), colour: '--good', values: count(['completed']) },
        { label: t('overview.failed'), colour: '--bad', values: count(['failed', 'dead']) },
        { label: t('overview.cancelled'), colour: '--warn', values: count(['cancelled']) },
      ],
    }
  }, [tasks, t])
  return (
    <Panel
      title={t('overview.throughput')}
      actions={series.map((s) => (
        <span key={s.label} className="ml-2 flex items-center gap-1.5 text-xs text-ink-2">
          <span aria-hidden className="size-2 rounded-sm" style={{ background: `var(${s.colour})` }} />
          {s.label}
        </span>
      ))}
    >
      <div className="h-52">
        {tasks.length === 0 ? (
          <p className="grid h-full place-items-center text-ink-3">{t('overview.noneEnded')}</p>
        ) : (
          <Suspense>
            <Chart label={t('overview.throughput')} times={times} series={series} height={208} />
          </Suspense>
        )}
      </div>
    </Panel>
  )
}

const minute = 60_000
const steps = [minute, 5 * minute, 15 * minute, 60 * minute, 3 * 60 * minute, 12 * 60 * minute, 24 * 60 * minute]
const widthOf = (least: number) => steps.find((step) => step >= least) ?? 7 * 24 * 60 * minute

function Latest({ tasks }: { tasks: Task[] }) {
  const { t } = useTranslation()
  if (tasks.length === 0) return null
  return (
    <Panel
      title={t('overview.latest')}
      flush
      actions={
        <Link to="/tasks" className="text-xs font-medium text-accent-strong hover:underline">
          {t('overview.all')}
        </Link>
      }
    >
      <ul className="divide-y">
        {tasks.map((task) => (
          <li key={task.id}>
            <Link
              to="/tasks/$taskId"
              params={{ taskId: task.id }}
              className="flex h-11 items-center gap-3 px-4 hover:bg-sunken/70"
            >
              <span className="w-32 shrink-0">
                <TaskBadge status={task.status} />
              </span>
              <span className="min-w-0 flex-1 truncate">{task.prompt.slice(0, 200)}</span>
              <span className="shrink-0 text-ink-3 max-sm:hidden">
                <Ago at={task.created_at} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  )
}
