import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import { say } from '@/i18n/said'
import { cn } from '@/lib/cn'
import { useFormat, useNow } from '@/lib/format'
import { Elapsed } from '@/ui/facts'
import type { Conversation, Step } from './conversation'
import { isFinal } from './events'
import { Waterfall } from './waterfall'

interface Span {
  key: number
  phase: 'queued' | 'leased' | 'running'
  worker: string
  epoch: number
  from: number
  to: number | null
  end: Step | null
}

/** The spans that a task spent waiting, leased and running, attempt after attempt. */
export function spansOf(task: Task, steps: Step[]): Span[] {
  const spans: Span[] = []
  let open: Span | null = { key: 0, phase: 'queued', worker: '', epoch: 0, from: task.created_at, to: null, end: null }
  const next = (step: Step, phase: Span['phase'] | null) => {
    if (open) spans.push({ ...open, to: step.at, end: step })
    const worker = typeof step.data.worker_id === 'string' ? step.data.worker_id : (open?.worker ?? '')
    open = phase && {
      key: step.key,
      phase,
      worker: phase === 'queued' ? '' : worker,
      epoch: step.epoch,
      from: step.at,
      to: null,
      end: null,
    }
  }
  for (const step of steps) {
    switch (step.type) {
      case 'leased':
        next(step, 'leased')
        break
      case 'started':
        next(step, 'running')
        break
      case 'retried':
      case 'released':
      case 'expired':
      case 'requeued':
        next(step, 'queued')
        break
      case 'completed':
      case 'failed':
      case 'dead':
      case 'cancelled':
        next(step, null)
    }
  }
  if (open) spans.push(open)
  return spans
}

const colours = { queued: 'bg-line-strong', leased: 'bg-accent', running: 'bg-info' }

/** Where the task's time went. */
export function Timeline({ task, conversation }: { task: Task; conversation: Conversation }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const spans = spansOf(
    task,
    conversation.items.filter((i) => i.kind === 'step'),
  )
  const end = spans.at(-1)?.to ?? (isFinal(task.status) ? task.updated_at : now)
  const whole = Math.max(1, end - task.created_at)
  return (
    <>
      <ol className="space-y-1">
        {spans.map((span) => (
          <li
            key={span.key}
            className="grid grid-cols-[7rem_minmax(0,1fr)_5rem] items-center gap-3 rounded-lg px-2 py-2 hover:bg-idle-soft/60 sm:grid-cols-[11rem_minmax(0,1fr)_6rem]"
          >
            <div className="min-w-0">
              <p className="truncate text-[13px] font-medium">{t(`ui.status.${span.phase}`)}</p>
              <p className="truncate text-xs text-ink-3">
                {span.worker ? t('task.leaseOn', { n: span.epoch, worker: span.worker }) : format.shortTime(span.from)}
              </p>
            </div>
            <div className="min-w-0">
              <div className="relative h-2.5 rounded-full bg-sunken" aria-hidden>
                <div
                  className={cn(
                    'absolute inset-y-0 min-w-1 rounded-full',
                    colours[span.phase],
                    span.to === null && 'breathe',
                  )}
                  style={{
                    left: `${Math.min(99, ((span.from - task.created_at) / whole) * 100)}%`,
                    width: `${(((span.to ?? end) - span.from) / whole) * 100}%`,
                  }}
                />
              </div>
              {span.end && (
                <p className="mt-1 text-xs text-ink-2 wrap-anywhere">
                  <span className="font-medium">{t(`task.step.${span.end.type as 'leased'}`)}</span>
                  {reason(span.end) && ` · ${say(reason(span.end))}`}
                </p>
              )}
            </div>
            <p className="text-right text-[13px] text-ink-2">
              <Elapsed from={span.from} to={span.to} />
            </p>
          </li>
        ))}
      </ol>
      <Waterfall conversation={conversation} over={isFinal(task.status)} />
    </>
  )
}

/** Why a span ended, where the name of its end does not say it all. */
const reason = (step: Step) =>
  ['leased', 'started', 'completed'].includes(step.type) || typeof step.data.detail !== 'string' ? '' : step.data.detail
