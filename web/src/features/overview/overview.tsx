import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { Task, TaskStatus } from '@/api/client'
import { stats as statsQuery, workers as workersQuery } from '@/api/queries'
import { recentTasks } from '@/api/recent'
import { useCommands } from '@/features/workers/commands'
import { useSlots } from '@/features/workers/slots'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { TaskBadge } from '@/ui/badge'
import { Panel } from '@/ui/card'
import { Ago, Command } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Failure, Loaded, Skeleton } from '@/ui/states'
import { Around } from './around'
import { Fleet } from './fleet'
import { History, series } from './history'
import { Problems } from './problem-list'

export default function Overview() {
  const { t } = useTranslation()
  const format = useFormat()
  const stats = useQuery(statsQuery)
  const workers = useQuery(workersQuery)
  const recent = useQuery(recentTasks)
  const by = stats.data?.tasks.by_status
  /** A number of tasks; what is not known yet is no zero. */
  const tasks = (...of: TaskStatus[]) => by && format.number(of.reduce((sum, status) => sum + (by[status] ?? 0), 0))
  // The leases of a worker that is offline take no slot of those that are there.
  const online = workers.data?.filter((w) => w.status === 'online') ?? []
  const slots = online.reduce((n, w) => n + w.capabilities.max_concurrency, 0)
  const active = online.reduce((n, w) => n + w.active_leases, 0)
  const saySlots = useSlots()
  const day = useQuery(series('day')).data
  const oldest = day?.now.oldest_wait_ms ?? null
  const today = (of: (p: NonNullable<typeof day>['points'][number]) => number) =>
    day?.points.reduce((sum, p) => sum + of(p), 0)
  const inDay = (n: number | undefined) => n !== undefined && t('overview.inDay', { n: format.number(n) })
  const created = today((p) => p.created)
  // Points have what attempts used that have ended; running ones count as well.
  const { tokens_used: runningTokens = 0, cost_usd: runningCost = 0 } = day?.now.usage ?? {}
  const tokens = today((p) => p.tokens_used)
  const cost = today((p) => p.cost_usd)
  const lastDay = (used: number, n: string) => (used > 0 ? t('overview.lastDayRunning', { n }) : t('overview.lastDay'))
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
        <Problems empty={empty} />
        {empty && <FirstSteps workers={(workers.data?.length ?? 0) > 0} />}
        <div className="grid grid-cols-2 gap-3 md:grid-cols-4 2xl:grid-cols-8">
          <Tile
            name={t('overview.queued')}
            value={tasks('queued')}
            status="queued"
            note={oldest !== null && t('overview.oldest', { ago: format.duration(oldest) })}
          />
          <Tile
            name={t('overview.running')}
            value={tasks('running', 'leased')}
            status="running"
            note={slots > 0 && saySlots(active, slots)}
          />
          <Tile
            name={t('overview.completed')}
            value={tasks('completed')}
            status="completed"
            note={inDay(today((p) => p.completed))}
          />
          <Tile
            name={t('overview.failed')}
            value={tasks('failed', 'dead')}
            status="failed"
            bad={(by?.failed ?? 0) + (by?.dead ?? 0) > 0}
            note={inDay(today((p) => p.failed + p.dead))}
          />
          <Tile name={t('overview.cancelled')} value={tasks('cancelled')} status="cancelled" />
          <Tile
            name={t('overview.total')}
            value={stats.data && format.compact(stats.data.tasks.total)}
            note={created !== undefined && t('overview.newInDay', { count: created, n: format.number(created) })}
          />
          <Tile
            name={t('overview.measure.tokens')}
            value={tokens !== undefined && format.compact(tokens + runningTokens)}
            note={lastDay(runningTokens, format.compact(runningTokens))}
            to="/contexts"
          />
          <Tile
            name={t('overview.measure.cost')}
            value={cost !== undefined && format.money(cost + runningCost)}
            note={lastDay(runningCost, format.money(runningCost))}
            to="/contexts"
          />
        </div>
        <div className="grid grid-cols-1 gap-5 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
          <History />
          <Panel
            title={t('overview.fleet')}
            actions={
              <Link to="/workers" className="text-xs font-medium text-accent-strong hover:underline">
                {t('overview.all')}
              </Link>
            }
          >
            <Loaded query={workers} skeleton={<Skeleton className="h-52" />}>
              {(list) => <Fleet workers={list ?? []} />}
            </Loaded>
            <Around />
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
  to = '/tasks',
  bad,
}: {
  name: string
  /** Nothing until it is known. */
  value: string | false | undefined
  note?: ReactNode
  status?: TaskStatus
  /** The list behind the number. */
  to?: '/tasks' | '/contexts'
  bad?: boolean
}) {
  return (
    <Link
      to={to}
      search={status ? { status } : {}}
      className="block rounded-card border bg-surface px-4 py-3 shadow-card transition-colors hover:border-line-strong"
    >
      <span className="block text-xs text-ink-3">{name}</span>
      <span className={cn('block text-2xl leading-8 font-semibold tracking-tight', bad && 'text-bad')}>
        {value || '–'}
      </span>
      <span className="block h-4 truncate text-xs text-ink-3">{note}</span>
    </Link>
  )
}

function FirstSteps({ workers }: { workers: boolean }) {
  const { t } = useTranslation()
  const { worker, task } = useCommands()
  return (
    <Panel title={t('overview.first')}>
      <ol className="space-y-4">
        {!workers && (
          <li>
            <p className="mb-1.5 font-medium">{t('overview.firstWorker')}</p>
            <Command text={worker('', location.origin)} />
          </li>
        )}
        <li>
          <p className="mb-1.5 font-medium">{t('overview.firstTask')}</p>
          <Command text={task} />
        </li>
      </ol>
    </Panel>
  )
}

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
              <span className="w-32 shrink-0 max-sm:w-26">
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
