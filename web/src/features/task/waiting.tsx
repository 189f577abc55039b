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

/** What a queued task waits for, and what to do about it. */
export function Waiting({ task }: { task: Task }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const { data } = useQuery(workersQuery)
  if (!data) return null
  const reason = reasonOf(task, data, now)
  const values = {
    when: reason.why === 'delayed' ? format.dateTime(reason.until) : '',
    in: reason.why === 'delayed' ? format.relative(reason.until, now) : '',
    labels: reason.why === 'labels' ? reason.labels.join(', ') : '',
  }
  return (
    <div role="status" className="mb-4 flex gap-3 rounded-card border border-warn/30 bg-warn-soft px-4 py-3">
      <Hourglass className="mt-0.5 size-4 shrink-0 text-warn" aria-hidden />
      <div>
        <p className="font-medium">{t(`task.waiting.${reason.why}.what`, values)}</p>
        <p className="mt-0.5 text-ink-2">{t(`task.waiting.${reason.why}.do`, values)}</p>
      </div>
    </div>
  )
}
