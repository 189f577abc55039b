import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { TaskStatus, Worker } from '@/api/client'
import { cn } from '@/lib/cn'

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'accent' | 'idle'

const tones: Record<Tone, string> = {
  good: 'bg-good-soft text-good',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
  info: 'bg-info-soft text-info',
  accent: 'bg-accent-soft text-accent-strong',
  idle: 'bg-idle-soft text-ink-2',
}

export function Badge({
  tone = 'idle',
  dot,
  live,
  children,
  className,
}: {
  tone?: Tone
  dot?: boolean
  /** The dot breathes: something is going on. */
  live?: boolean
  children: ReactNode
  className?: string
}) {
  return (
    <span
      className={cn(
        'inline-flex h-5.5 max-w-full shrink-0 items-center gap-1.5 rounded-full px-2 text-xs font-medium whitespace-nowrap',
        tones[tone],
        className,
      )}
    >
      {dot && <span aria-hidden className={cn('size-1.5 rounded-full bg-current', live && 'breathe')} />}
      {typeof children === 'string' && children.length > 24 ? (
        <span className="truncate" title={children}>
          {children}
        </span>
      ) : (
        children
      )}
    </span>
  )
}

const taskTones: Record<TaskStatus, Tone> = {
  queued: 'idle',
  leased: 'info',
  running: 'info',
  completed: 'good',
  failed: 'bad',
  dead: 'bad',
  cancelled: 'warn',
}

export function TaskBadge({ status }: { status: TaskStatus }) {
  const { t } = useTranslation()
  return (
    <Badge tone={taskTones[status]} dot live={status === 'running' || status === 'leased'}>
      {t(`ui.status.${status}`)}
    </Badge>
  )
}

const workerTones: Record<Worker['status'], Tone> = {
  online: 'good',
  offline: 'bad',
  syncing: 'info',
  error: 'bad',
  unknown: 'idle',
}

export function WorkerBadge({ worker }: { worker: Pick<Worker, 'status' | 'draining'> }) {
  const { t } = useTranslation()
  if (worker.draining && worker.status === 'online') {
    return (
      <Badge tone="warn" dot>
        {t('ui.worker.draining')}
      </Badge>
    )
  }
  return (
    <Badge tone={workerTones[worker.status]} dot>
      {t(`ui.worker.${worker.status}`)}
    </Badge>
  )
}
