import { Hourglass } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import { useFormat, useNow } from '@/lib/format'

type Told = NonNullable<Task['waiting_for']>

const whys = {
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
} as const satisfies Record<Told['reason'], string>

/** What a queued task waits for, as the server says it, and what to do about it. */
export function Waiting({ task }: { task: Task }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const told = task.waiting_for
  if (!told) return null
  // A newer server may have more reasons: then its own sentence is shown.
  const why = (whys as Partial<typeof whys>)[told.reason]
  const until = told.until
  const values = {
    task: told.task_id?.slice(-8),
    worker: told.worker_id,
    used: told.slots_used,
    count: told.slots ?? 0,
    when: until ? format.dateTime(until) : '',
    in: until ? format.relative(until, now) : '',
    labels: told.labels?.join(', ') ?? '',
  }
  return (
    <div role="status" className="mb-4 flex gap-3 rounded-card border border-warn/30 bg-warn-soft px-4 py-3">
      <Hourglass className="mt-0.5 size-4 shrink-0 text-warn" aria-hidden />
      <div>
        <p className="font-medium">{why ? t(`task.waiting.${why}.what`, values) : told.sentence}</p>
        {why && <p className="mt-0.5 text-ink-2">{t(`task.waiting.${why}.do`, values)}</p>}
      </div>
    </div>
  )
}
