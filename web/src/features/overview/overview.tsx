import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { Task, TaskStatus } from '@/api/client'
import { stats as statsQuery, workers as workersQuery } from '@/api/queries'
import { recentTasks } from '@/api/recent'
import type { TaskFilters, TaskView } from '@/app/router'
import { isFinal } from '@/features/task/events'
import { useCommands } from '@/features/workers/commands'
import { useSlots } from '@/features/workers/slots'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { TaskBadge } from '@/ui/badge'
import { Card, Panel } from '@/ui/card'
import { Ago, Command, Elapsed } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Failure, Loaded, Skeleton } from '@/ui/states'
import { Around } from './around'
import { Ask } from './ask'
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
  const completed = today((p) => p.completed)
  const failed = today((p) => p.failed + p.dead)
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
        <Ask />
        <Problems empty={empty} tasks={recent.data?.items ?? []} />
        {empty && <FirstSteps workers={(workers.data?.length ?? 0) > 0} />}
        <Card className="grid grid-cols-2 overflow-hidden sm:grid-cols-3 xl:grid-cols-6">
          <Figure
            name={t('overview.queued')}
            value={tasks('queued')}
            search={{ status: 'queued' }}
            note={oldest !== null && t('overview.oldest', { ago: format.duration(oldest) })}
          />
          <Figure
            name={t('overview.running')}
            value={tasks('running', 'leased')}
            search={{ status: 'running' }}
            note={slots > 0 && saySlots(active, slots)}
          />
          <Figure
            name={t('overview.completed')}
            value={completed !== undefined && format.number(completed)}
            search={{ status: 'completed', within: '24h' }}
            note={t('overview.lastDay')}
          />
          <Figure
            name={t('overview.failed')}
            value={failed !== undefined && format.number(failed)}
            search={{ status: 'failed', within: '24h' }}
            bad={failed !== undefined && failed > 0}
            note={t('overview.lastDay')}
          />
          <Figure
            name={t('overview.measure.tokens')}
            value={tokens !== undefined && format.compact(tokens + runningTokens)}
            search={{ sort: '-tokens', within: '24h' }}
            note={lastDay(runningTokens, format.compact(runningTokens))}
          />
          <Figure
            name={t('overview.measure.cost')}
            value={cost !== undefined && format.money(cost + runningCost)}
            search={{ sort: '-cost', within: '24h' }}
            note={lastDay(runningCost, format.money(runningCost))}
          />
        </Card>
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

function Figure({
  name,
  value,
  note,
  search,
  bad,
}: {
  name: string
  /** Nothing until it is known. */
  value: string | false | undefined
  note?: ReactNode
  /** What narrows the list of tasks to those behind the number. */
  search: TaskFilters & TaskView
  bad?: boolean
}) {
  return (
    <Link
      to="/tasks"
      search={search}
      className="-mt-px -ml-px block border-t border-l px-4 py-3 -outline-offset-2 hover:bg-sunken"
    >
      <span className="block truncate text-xs text-ink-3">{name}</span>
      <span className={cn('block text-xl leading-7 font-semibold tracking-tight', bad && 'text-bad')}>
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
  const format = useFormat()
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
              className="flex min-h-11 items-center gap-3 px-4 py-1.5 hover:bg-sunken/70"
            >
              <span className="w-32 shrink-0 max-sm:w-26">
                <TaskBadge status={task.status} />
              </span>
              <span className="min-w-0 flex-1">
                <span className="block truncate">{task.prompt.slice(0, 200)}</span>
                <span className="flex gap-x-3 text-2xs text-ink-3 lg:hidden">
                  <span className="truncate">{[task.agent_slug, task.worker_id].filter(Boolean).join(' · ')}</span>
                  <Took task={task} className="ml-auto shrink-0" />
                  {task.usage?.cost_usd !== undefined && (
                    <span className="shrink-0">{format.money(task.usage.cost_usd)}</span>
                  )}
                </span>
              </span>
              <span className={cn(cell, 'w-32')}>{task.agent_slug}</span>
              <span className={cn(cell, 'w-32')}>{task.worker_id ?? none}</span>
              <span className={cn(cell, 'w-20 text-right')}>
                <Took task={task} />
              </span>
              <span className={cn(cell, 'w-20 text-right')}>
                {task.usage?.cost_usd === undefined ? none : format.money(task.usage.cost_usd)}
              </span>
              <span className="w-20 shrink-0 text-right text-ink-3 max-sm:hidden">
                <Ago at={task.created_at} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  )
}

const cell = 'shrink-0 truncate text-ink-2 max-lg:hidden'
const none = <span aria-hidden>–</span>

/** How long the newest attempt has taken. */
function Took({ task, className }: { task: Task; className?: string }) {
  if (!task.started_at) return className ? null : none
  return <Elapsed from={task.started_at} to={isFinal(task.status) ? task.updated_at : null} className={cn(className)} />
}
