import { useQuery } from '@tanstack/react-query'
import { Hourglass, type LucideIcon, Unplug } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import { worker as workerQuery } from '@/api/queries'
import { Request } from '@/features/approvals/request'
import { say } from '@/i18n/said'
import { useFormat, useNow } from '@/lib/format'
import type { Step } from './conversation'

type Told = NonNullable<Task['waiting_for']>

const whys = {
  approval: 'approval',
  ordered: 'ordered',
  delayed: 'delayed',
  no_worker_registered: 'noWorker',
  no_worker_online: 'allOffline',
  no_worker_with_labels: 'labels',
  no_worker_with_claude: 'noCli',
  workers_drained: 'allDraining',
  workers_paused: 'paused',
  workers_full: 'full',
  kept_for_worker: 'kept',
  skipped: 'skipped',
  no_worker_claims: 'noClaims',
  next_claim: 'soon',
} as const satisfies Record<Told['reason'], string>

/** What a queued task waits for, as the server says it, and what to do about it. */
export function Waiting({ task, steps = [] }: { task: Task; steps?: Step[] }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const told = task.waiting_for
  if (!told) return null
  const until = told.until
  const reason = told.reason === 'delayed' ? whyAgain(steps) : ''
  // A newer server may have more reasons: then its own sentence is shown.
  const why = reason ? 'again' : (whys as Partial<typeof whys>)[told.reason]
  const values = {
    task: told.task_id?.slice(-8),
    worker: told.worker_id,
    used: told.slots_used,
    count: (why === 'labels' ? told.labels?.length : told.slots) ?? 0,
    when: until ? format.dateTime(until) : '',
    in: until ? format.relative(until, now) : '',
    labels: told.labels?.join(', ') ?? '',
    reason,
  }
  return (
    <Notice
      icon={Hourglass}
      what={why ? t(`task.waiting.${why}.what`, values) : told.sentence}
      todo={why ? t(`task.waiting.${why}.do`, values) : ''}
    />
  )
}

/** What the task asks people: that it waits for them, and the request itself. */
export function Asking({ task }: { task: Task }) {
  const { t } = useTranslation()
  const id = task.approval?.asking || task.waiting_for?.approval_id
  if (!id) return null
  return (
    <>
      {task.status !== 'queued' && <Notice icon={Hourglass} what={t('task.waiting.approval.live')} todo="" />}
      <div className="mb-4">
        <Request taskId={task.id} id={id} ofTask />
      </div>
    </>
  )
}

/** That the worker of a running task is offline, and when another may take the task. */
export function WorkerOffline({ task, workerId }: { task: Task; workerId: string }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const { data: worker } = useQuery(workerQuery(workerId))
  const lease = worker?.leases?.find((l) => l.id === task.lease_id)
  if (worker?.status !== 'offline' || !lease) return null
  const values = {
    worker: worker.id,
    since: format.relative(worker.last_heartbeat ?? now, now),
    in: format.relative(lease.expires_at, now),
  }
  return (
    <Notice
      icon={Unplug}
      what={t('task.workerOffline.what', values)}
      todo={t(task.attempts < task.max_attempts ? 'task.workerOffline.do' : 'task.workerOffline.last', values)}
    />
  )
}

function Notice({ icon: Icon, what, todo }: { icon: LucideIcon; what: string; todo: string }) {
  return (
    <div role="status" className="mb-4 flex gap-3 rounded-card border border-warn/30 bg-warn-soft px-4 py-3">
      <Icon className="mt-0.5 size-4 shrink-0 text-warn" aria-hidden />
      <div>
        <p className="font-medium wrap-anywhere">{what}</p>
        {todo && <p className="mt-0.5 text-ink-2">{todo}</p>}
      </div>
    </div>
  )
}

/** Why the last attempt is made again; empty when there was none, or it was asked for. */
function whyAgain(steps: Step[]): string {
  const last = steps.findLast((step) => ends.includes(step.type))
  const detail = last?.data.detail
  return last && last.type !== 'requeued' && typeof detail === 'string' ? say(detail) : ''
}

const ends = ['retried', 'released', 'expired', 'requeued']
