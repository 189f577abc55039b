import { useQuery } from '@tanstack/react-query'
import { Hourglass } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import type { Task, Worker } from '@/api/client'
import { workers as workersQuery } from '@/api/queries'
import { useFormat, useNow } from '@/lib/format'

type Reason =
  | { why: 'delayed'; until: number }
  | { why: 'noWorker' | 'allOffline' | 'noCli' | 'allDraining' | 'busy' | 'soon' }
  | { why: 'labels'; labels: string[] }

/** Why a queued task has not started, from what is known of the workers. */
export function reasonOf(task: Task, workers: Worker[], now: number): Reason {
  if (task.run_at > now + 1000) return { why: 'delayed', until: task.run_at }
  if (workers.length === 0) return { why: 'noWorker' }
  const online = workers.filter((w) => w.status === 'online')
  if (online.length === 0) return { why: 'allOffline' }
  const able = online.filter((w) => w.capabilities.claude_cli)
  if (able.length === 0) return { why: 'noCli' }
  const labels = task.labels ?? []
  const fitting = able.filter((w) => labels.every((label) => w.capabilities.labels?.includes(label)))
  if (fitting.length === 0) return { why: 'labels', labels }
  const taking = fitting.filter((w) => !w.draining)
  if (taking.length === 0) return { why: 'allDraining' }
  if (taking.every((w) => w.active_leases >= w.capabilities.max_concurrency)) return { why: 'busy' }
  return { why: 'soon' }
}

type Told = NonNullable<Task['waiting_for']>
type Why = Reason['why'] | 'full' | 'ordered' | 'kept'

const whyOf: Record<Told['reason'], Why> = {
  ordered: 'ordered',
  delayed: 'delayed',
  no_worker_registered: 'noWorker',
  no_worker_online: 'allOffline',
  no_worker_with_labels: 'labels',
  no_worker_with_claude: 'noCli',
  workers_drained: 'allDraining',
  workers_full: 'full',
  kept_for_worker: 'kept',
  next_claim: 'soon',
}

/** What the server says that a task waits for; a guess from the workers when it does not say. */
export function waitOf(task: Task, workers: Worker[], now: number) {
  const told = task.waiting_for
  if (!told) {
    const guess = reasonOf(task, workers, now)
    return { ...guess, why: guess.why as Why }
  }
  return {
    why: whyOf[told.reason] as Why | undefined, // a newer server may have more reasons
    until: told.until,
    labels: told.labels,
    task: told.task_id?.slice(-8),
    worker: told.worker_id,
    used: told.slots_used,
    slots: told.slots,
    sentence: told.sentence,
  }
}

/** What a queued task waits for, and what to do about it. */
export function Waiting({ task }: { task: Task }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const { data } = useQuery({ ...workersQuery, enabled: !task.waiting_for })
  if (!task.waiting_for && !data) return null
  const { why, until, labels, ...values } = {
    until: 0,
    labels: [] as string[],
    sentence: '',
    ...waitOf(task, data ?? [], now),
  }
  const shown = {
    ...values,
    when: until ? format.dateTime(until) : '',
    in: until ? format.relative(until, now) : '',
    labels: labels?.join(', ') ?? '',
  }
  return (
    <div role="status" className="mb-4 flex gap-3 rounded-card border border-warn/30 bg-warn-soft px-4 py-3">
      <Hourglass className="mt-0.5 size-4 shrink-0 text-warn" aria-hidden />
      <div>
        <p className="font-medium">{why ? t(`task.waiting.${why}.what`, shown) : values.sentence}</p>
        {why && <p className="mt-0.5 text-ink-2">{t(`task.waiting.${why}.do`, shown)}</p>}
      </div>
    </div>
  )
}
