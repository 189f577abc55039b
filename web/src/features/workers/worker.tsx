import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { CircleCheck, TriangleAlert } from 'lucide-react'
import { lazy, type ReactNode, Suspense, useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Worker as Is, type Lease, page } from '@/api/client'
import { health, keys, worker as workerQuery } from '@/api/queries'
import { isFinal } from '@/features/task/events'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { Badge, TaskBadge, WorkerBadge } from '@/ui/badge'
import { Fact, Facts, Panel } from '@/ui/card'
import { Ago, CopyButton, Elapsed } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Loaded, SkeletonRows } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { busyFrom } from './busy'
import { useSlots } from './slots'
import { WorkerLogs } from './worker-logs'
import { WorkerMenu } from './worker-menu'

const Chart = lazy(() => import('@/ui/chart'))

/** How many of its tasks, and of its leases, are read. */
const recent = 15
const leasesRead = 200

/** One worker: what it runs and ran, how busy it is, what it logs, and why it takes no tasks. */
export default function Worker() {
  const { workerId } = useParams({ strict: false }) as { workerId: string }
  const { t } = useTranslation()
  const navigate = useNavigate()
  const query = useQuery({ ...workerQuery(workerId), refetchInterval: 30_000 })
  const slots = useSlots()
  return (
    <Page
      title={<span className="wrap-anywhere">{workerId}</span>}
      tabTitle={workerId}
      beside={
        <>
          <CopyButton text={workerId} label={t('workers.copyName')} />
          {query.data && <WorkerBadge worker={query.data} />}
        </>
      }
      lead={query.data && slots(query.data.active_leases, Math.max(1, query.data.capabilities.max_concurrency))}
      actions={query.data && <WorkerMenu worker={query.data} onRemoved={() => void navigate({ to: '/workers' })} />}
    >
      <Loaded query={query}>
        {(worker) =>
          worker && (
            <div className="grid items-start gap-4 *:min-w-0 xl:grid-cols-[minmax(0,1fr)_24rem] min-[112.5rem]:grid-cols-[minmax(0,1fr)_minmax(0,0.9fr)_24rem]">
              <div className="space-y-4">
                <Busy worker={worker} />
                <Recent id={worker.id} />
              </div>
              <div className="space-y-4 xl:col-start-2 xl:row-span-2 xl:row-start-1 min-[112.5rem]:col-start-3 max-xl:row-start-1">
                <Claims worker={worker} />
                <About worker={worker} />
              </div>
              <Panel title={t('workers.logs')} className="min-[112.5rem]:col-start-2 min-[112.5rem]:row-start-1">
                <WorkerLogs id={worker.id} />
              </Panel>
            </div>
          )
        }
      </Loaded>
    </Page>
  )
}

/** Whether it takes tasks, and if not, every reason. */
function Claims({ worker }: { worker: Is }) {
  const { t } = useTranslation()
  const format = useFormat()
  const reasons: ReactNode[] = []
  if (worker.status !== 'online') {
    reasons.push(
      <>
        {t(`workers.why.${worker.status}`)}{' '}
        {worker.last_heartbeat !== null && (
          <>
            {t('workers.heartbeat')}: <Ago at={worker.last_heartbeat} />.
          </>
        )}
      </>,
    )
  }
  if (!worker.capabilities.claude_cli) reasons.push(t('workers.why.claude'))
  if (worker.pause) {
    const when = format.dateTime(worker.pause.until)
    reasons.push(
      <>
        {t(worker.pause.class === 'auth' ? 'workers.why.auth' : 'workers.why.limited', { when })}
        <span className="mt-0.5 block text-xs wrap-anywhere text-ink-2">{say(worker.pause.reason)}</span>
      </>,
    )
  }
  if (worker.runtime_drain) reasons.push(t('workers.why.drained'))
  if (worker.membridge_drain) reasons.push(t('workers.atMembridge', { name: encodeURIComponent(worker.id) }))
  const full = worker.active_leases >= worker.capabilities.max_concurrency
  if (reasons.length === 0 && full) reasons.push(t('workers.why.full'))
  return (
    <Panel title={t('workers.claims')}>
      {reasons.length === 0 ? (
        <p className="flex items-center gap-2 text-[13px]">
          <CircleCheck className="size-4 shrink-0 text-good" aria-hidden />
          {t('workers.takes')}
        </p>
      ) : (
        <ul className="space-y-2 text-[13px]">
          {reasons.map((reason, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: each reason has its place
            <li key={i} className="flex items-start gap-2">
              <TriangleAlert className="mt-0.5 size-4 shrink-0 text-warn" aria-hidden />
              <div className="min-w-0">{reason}</div>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  )
}

function About({ worker }: { worker: Is }) {
  const { t } = useTranslation()
  const server = useQuery(health).data?.version ?? ''
  const { setup, capabilities } = worker
  const skewed = server !== '' && worker.agent_version !== '' && worker.agent_version !== server
  return (
    <Panel title={t('workers.about')}>
      <Facts>
        <Fact name={t('workers.claude')}>
          {!capabilities.claude_cli ? (
            <span className="text-bad">{t('workers.missing')}</span>
          ) : (
            setup?.claude || t('workers.ready')
          )}
        </Fact>
        {setup && (
          <>
            <Fact name={t('workers.login')}>{t(`workers.logins.${setup.login ?? 'none'}`)}</Fact>
            <Fact name={t('workers.mode')}>
              <span title={t('workers.modeHint')}>{setup.permission_mode || '–'}</span>
            </Fact>
            <Fact name={t('workers.folder')}>
              <span className="font-mono text-xs">{setup.folder}</span>
              {setup.per_context && <span className="block text-xs text-ink-3">{t('workers.perContext')}</span>}
            </Fact>
          </>
        )}
        <Fact name={t('workers.heartbeat')}>
          {worker.last_heartbeat === null ? t('workers.never') : <Ago at={worker.last_heartbeat} />}
        </Fact>
        {worker.agent_version && (
          <Fact name={t('workers.version')}>
            {worker.agent_version} {skewed && <Badge tone="warn">{t('workers.skew', { version: server })}</Badge>}
          </Fact>
        )}
        {worker.os_info && <Fact name={t('workers.os')}>{worker.os_info}</Fact>}
        {worker.ip_addrs.length > 0 && (
          <Fact name={t('workers.addresses')}>
            <span className="font-mono text-xs">{worker.ip_addrs.join(', ')}</span>
          </Fact>
        )}
        {(capabilities.labels?.length ?? 0) > 0 && (
          <Fact name={t('task.labels')}>
            <span className="flex flex-wrap gap-1">
              {capabilities.labels?.map((l) => (
                <Badge key={l}>{l}</Badge>
              ))}
            </span>
          </Fact>
        )}
        {worker.agents.length > 0 && <Fact name={t('workers.agents')}>{worker.agents.join(', ')}</Fact>}
        <Fact name={t('workers.registered')}>
          <Ago at={worker.registered_at} />
        </Fact>
      </Facts>
    </Panel>
  )
}

/** How many slots were in use, as far back as its last leases reach. */
function Busy({ worker }: { worker: Is }) {
  const { t } = useTranslation()
  const query = useQuery({
    queryKey: [...keys.leases, 'of', worker.id],
    queryFn: () =>
      page<Lease>(api.GET('/api/runtime/leases', { params: { query: { worker_id: worker.id, limit: leasesRead } } })),
    refetchInterval: 60_000,
  })
  const label = t('workers.busy', { count: worker.capabilities.max_concurrency })
  const chart = useMemo(() => {
    const leases = query.data?.items
    return leases && leases.length > 0 ? busyFrom(leases, query.data?.next === null, Date.now()) : undefined
  }, [query.data])
  const series = useMemo(() => (chart ? [{ label, colour: '--info', values: chart.values }] : []), [chart, label])
  return (
    <Panel title={label}>
      {chart ? (
        <div className="h-36">
          <Suspense>
            <Chart label={label} times={chart.times} series={series} height={144} />
          </Suspense>
        </div>
      ) : (
        query.data && <p className="py-4 text-center text-ink-2">{t('workers.noRuns')}</p>
      )}
    </Panel>
  )
}

/** The tasks that it got last. */
function Recent({ id }: { id: string }) {
  const { t } = useTranslation()
  const format = useFormat()
  const query = useQuery({
    queryKey: [...keys.workers, id, 'tasks'],
    queryFn: () =>
      data(api.GET('/api/runtime/llm-tasks', { params: { query: { worker_id: id, limit: recent, preview: 200 } } })),
  })
  return (
    <Panel
      title={t('workers.recent')}
      flush
      actions={
        <Link
          to="/tasks"
          search={{ worker_id: id }}
          className="px-1 text-xs font-medium text-accent-strong hover:underline"
        >
          {t('workers.allTasks')}
        </Link>
      }
    >
      {!query.data ? (
        <SkeletonRows />
      ) : query.data.length === 0 ? (
        <p className="px-4 py-8 text-center text-ink-2">{t('workers.noRuns')}</p>
      ) : (
        <Table label={t('workers.recent')}>
          <thead>
            <tr>
              <Th>{t('tasks.columns.status')}</Th>
              <Th>{t('tasks.prompt')}</Th>
              <Th className="max-lg:hidden">{t('tasks.columns.agent_slug')}</Th>
              <Th className="text-right max-sm:hidden">{t('tasks.columns.duration')}</Th>
              <Th className="text-right max-lg:hidden">{t('tasks.columns.cost')}</Th>
              <Th className="text-right max-sm:hidden">{t('tasks.columns.created_at')}</Th>
            </tr>
          </thead>
          <tbody>
            {query.data.map((task) => (
              <Tr key={task.id}>
                <Td>
                  <TaskBadge status={task.status} />
                </Td>
                <Td className="w-full max-w-40">
                  <Link
                    to="/tasks/$taskId"
                    params={{ taskId: task.id }}
                    className="block truncate font-medium hover:text-accent-strong"
                  >
                    {task.prompt}
                  </Link>
                </Td>
                <Td className="max-w-36 truncate text-ink-2 max-lg:hidden">{task.agent_slug}</Td>
                <Td className="text-right text-ink-2 max-sm:hidden">
                  {task.started_at ? (
                    <Elapsed from={task.started_at} to={isFinal(task.status) ? task.updated_at : null} />
                  ) : (
                    '–'
                  )}
                </Td>
                <Td className="text-right text-ink-2 max-lg:hidden">
                  {task.usage ? format.money(task.usage.cost_usd ?? 0) : '–'}
                </Td>
                <Td className="text-right text-ink-2 max-sm:hidden">
                  <Ago at={task.created_at} />
                </Td>
              </Tr>
            ))}
          </tbody>
        </Table>
      )}
    </Panel>
  )
}
