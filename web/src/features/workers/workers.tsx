import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus, Server } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Task, type Worker } from '@/api/client'
import { health, keys, workers as workersQuery } from '@/api/queries'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { Badge, WorkerBadge } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Card, Fact, Facts } from '@/ui/card'
import { Dialog } from '@/ui/dialog'
import { Ago, Elapsed } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Empty, Loaded } from '@/ui/states'
import { AddWorker } from './add-worker'
import { useSlots } from './slots'
import { WorkerMenu } from './worker-menu'

export default function Workers() {
  const { t } = useTranslation()
  const query = useQuery(workersQuery)
  const [adding, setAdding] = useState(false)
  const server = useQuery(health).data?.version ?? ''
  const running = useQuery({
    queryKey: [...keys.workers, 'running'],
    queryFn: () =>
      data(api.GET('/api/runtime/llm-tasks', { params: { query: { status: 'running', limit: 200, preview: 120 } } })),
  }).data
  return (
    <Page
      title={t('workers.title')}
      lead={t('workers.lead')}
      actions={
        // An empty page shows how in its middle.
        query.data?.length !== 0 && (
          <Button look="primary" onClick={() => setAdding(true)}>
            <Plus className="size-4" aria-hidden />
            {t('workers.add')}
          </Button>
        )
      }
    >
      <div className="*:[[role=alert]]:m-0">
        <Loaded
          query={query}
          empty={{
            when: (list) => !list?.length,
            show: (
              <Card>
                <Empty icon={Server} title={t('workers.none')} action={<AddWorker />}>
                  {t('workers.noneHint')}
                </Empty>
              </Card>
            ),
          }}
        >
          {(list) => (
            <ul className="grid gap-4 md:grid-cols-2 2xl:grid-cols-3 min-[112.5rem]:grid-cols-4">
              {list?.map((worker) => (
                <li key={worker.id} className="min-w-0">
                  <WorkerCard
                    worker={worker}
                    server={server}
                    tasks={running?.filter((task) => task.worker_id === worker.id) ?? []}
                  />
                </li>
              ))}
            </ul>
          )}
        </Loaded>
      </div>
      <Dialog open={adding} onOpenChange={setAdding} title={t('workers.add')} lead={t('workers.addLead')} wide>
        <AddWorker />
      </Dialog>
    </Page>
  )
}

function WorkerCard({ worker, server, tasks }: { worker: Worker; server: string; tasks: Task[] }) {
  const { t } = useTranslation()
  const format = useFormat()
  const all = Math.max(1, worker.capabilities.max_concurrency)
  const slots = useSlots()
  const skewed = server !== '' && worker.agent_version !== '' && worker.agent_version !== server
  return (
    <Card className="h-full">
      <header className="flex items-center gap-3 px-4 pt-3">
        <h2 className="min-w-0 flex-1 truncate text-[15px] font-semibold">
          <Link to="/workers/$workerId" params={{ workerId: worker.id }} className="hover:text-accent-strong">
            {worker.id}
          </Link>
        </h2>
        <WorkerBadge worker={worker} />
        <WorkerMenu worker={worker} />
      </header>
      <div className="px-4 pt-2 pb-4">
        <div className="mb-3 flex items-center gap-2.5">
          <span className="h-2 flex-1 overflow-hidden rounded-full bg-idle-soft" aria-hidden>
            <span
              className="block h-full rounded-full bg-info"
              style={{ width: `${Math.min(100, (worker.active_leases / all) * 100)}%` }}
            />
          </span>
          <Link
            to="/tasks"
            search={{ worker_id: worker.id, status: 'running' }}
            className="text-xs text-ink-2 hover:underline"
          >
            {slots(worker.active_leases, all)}
          </Link>
        </div>
        {tasks.length > 0 && <Running tasks={tasks} />}
        <Facts>
          <Fact name={t('workers.heartbeat')}>
            {worker.last_heartbeat === null ? t('workers.never') : <Ago at={worker.last_heartbeat} />}
          </Fact>
          <Fact name={t('workers.claude')}>
            {worker.capabilities.claude_cli ? (
              (worker.setup?.claude ?? t('workers.ready'))
            ) : (
              <span className="text-bad">{t('workers.missing')}</span>
            )}
          </Fact>
          {worker.draining && <Drained worker={worker} />}
          {worker.pause && (
            <Fact name={t('workers.paused')}>
              <span className="text-bad">
                {t('workers.pausedUntil', {
                  when: format.dateTime(worker.pause.until),
                  reason: say(worker.pause.reason),
                })}
              </span>
            </Fact>
          )}
          {worker.agent_version && (
            <Fact name={t('workers.version')}>
              {worker.agent_version} {skewed && <Badge tone="warn">{t('workers.skew', { version: server })}</Badge>}
            </Fact>
          )}
          {(worker.capabilities.labels?.length ?? 0) > 0 && (
            <Fact name={t('task.labels')}>
              <span className="flex flex-wrap gap-1">
                {worker.capabilities.labels?.map((l) => (
                  <Badge key={l}>{l}</Badge>
                ))}
              </span>
            </Fact>
          )}
          {worker.agents.length > 0 && <Fact name={t('workers.agents')}>{worker.agents.join(', ')}</Fact>}
        </Facts>
      </div>
    </Card>
  )
}

/** What the worker runs now. */
function Running({ tasks }: { tasks: Task[] }) {
  const { t } = useTranslation()
  return (
    <ul aria-label={t('workers.running')} className="mb-3 space-y-0.5 rounded-lg bg-sunken px-3 py-2 text-[13px]">
      {tasks.slice(0, 4).map((task) => (
        <li key={task.id} className="flex items-baseline gap-2">
          <Link
            to="/tasks/$taskId"
            params={{ taskId: task.id }}
            className="min-w-0 flex-1 truncate hover:text-accent-strong hover:underline"
          >
            {task.prompt}
          </Link>
          <Elapsed from={task.updated_at} className="shrink-0 text-xs text-ink-3" />
        </li>
      ))}
      {tasks.length > 4 && (
        <li className="text-xs text-ink-3">{t('workers.moreRunning', { count: tasks.length - 4 })}</li>
      )}
    </ul>
  )
}

/** Where the worker was drained, which is where it is to be undrained. */
export function Drained({ worker }: { worker: Worker }) {
  const { t } = useTranslation()
  return (
    <Fact name={t('workers.drainedAt')}>
      {worker.runtime_drain && <div>{t('workers.atRuntime')}</div>}
      {worker.membridge_drain && <div>{t('workers.atMembridge', { name: encodeURIComponent(worker.id) })}</div>}
    </Fact>
  )
}
