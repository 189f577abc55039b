import type { TFunction } from 'i18next'
import { ChevronRight, CircleAlert, CircleCheck, Clock, Info, RotateCcw, Server } from 'lucide-react'
import { memo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { say } from '@/i18n/said'
import { cn } from '@/lib/cn'
import { type Formats, useFormat } from '@/lib/format'
import { CodeBlock } from '@/ui/code'
import { Prose } from '@/ui/prose'
import type { Item, Said, Step } from './conversation'
import { causeOf } from './error-classes'
import { ToolCard } from './tool-card'

/** One entry of the conversation. */
export const Row = memo(function Row({ item, over }: { item: Item; over: boolean }) {
  const { t } = useTranslation()
  switch (item.kind) {
    case 'text':
      return (
        <>
          <Prose text={item.text} />
          {item.truncated && <p className="mt-1 text-xs text-ink-3">{t('task.truncated')}</p>}
        </>
      )
    case 'thinking':
      return <Thinking item={item} />
    case 'stderr':
      return <CodeBlock text={item.text} limit={6} tone="bad" label={t('task.stderr')} />
    case 'tool':
      return <ToolCard tool={item} over={over} />
    case 'step':
      return <StepLine step={item} />
  }
})

function Thinking({ item }: { item: Said }) {
  const { t } = useTranslation()
  const [open, setOpen] = useState(false)
  return (
    <div className="text-ink-2">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex items-center gap-1 rounded text-xs font-medium text-ink-3 hover:text-ink"
      >
        <ChevronRight className={cn('size-3.5 transition-transform', open && 'rotate-90')} aria-hidden />
        {t('task.thinking')}
      </button>
      {open && (
        <div className="mt-1.5 border-l-2 pl-3 italic">
          <Prose text={item.text} />
        </div>
      )}
    </div>
  )
}

const tones: Record<string, 'good' | 'bad' | 'warn'> = {
  completed: 'good',
  failed: 'bad',
  dead: 'bad',
  cancelled: 'warn',
  expired: 'bad',
  retried: 'warn',
  released: 'warn',
  cancel_requested: 'warn',
  api_retry: 'warn',
  rate_limit: 'warn',
  warning: 'warn',
  hint_missing: 'warn',
  transcript_refused: 'warn',
  workspace_refused: 'warn',
}

/** Something that happened to the task, between what was said. */
function StepLine({ step }: { step: Step }) {
  const { t } = useTranslation()
  const format = useFormat()
  const tone = tones[step.type]
  const Icon =
    tone === 'good'
      ? CircleCheck
      : tone === 'bad'
        ? CircleAlert
        : step.type === 'leased'
          ? Server
          : step.type === 'retried' || step.type === 'requeued'
            ? RotateCcw
            : tone === 'warn'
              ? Clock
              : Info
  const detail = detailOf(step, t, format)
  return (
    <div
      className={cn(
        'flex items-start gap-2 text-xs',
        tone === 'bad' ? 'text-bad' : tone === 'warn' ? 'text-warn' : tone === 'good' ? 'text-good' : 'text-ink-3',
      )}
    >
      <Icon className="mt-px size-3.5 shrink-0" aria-hidden />
      <p className="min-w-0 flex-1 wrap-anywhere">
        <span className="font-medium">{t(`task.step.${step.type as 'leased'}`)}</span>
        {detail && <span> · {detail}</span>}
      </p>
      <time className="tabular shrink-0 text-ink-3" dateTime={new Date(step.at).toISOString()}>
        {format.shortTime(step.at)}
      </time>
    </div>
  )
}

function detailOf({ type, data }: Step, t: TFunction, format: Formats): string {
  const of = (name: string) =>
    typeof data[name] === 'string' || typeof data[name] === 'number' ? String(data[name]) : ''
  switch (type) {
    case 'session':
      return [of('model'), of('claude_version'), of('workdir') && t('task.filesIn', { dir: of('workdir') })]
        .filter(Boolean)
        .join(' · ')
    case 'artifact':
      return of('path')
    case 'hints':
      return Array.isArray(data.files) ? data.files.join(', ') : ''
    case 'hint_missing':
      return `${of('hint')}: ${say(of('reason'))}`
    case 'api_retry':
      return [of('attempt') && `${of('attempt')}/${of('max_retries')}`, of('status'), of('error')]
        .filter(Boolean)
        .join(' · ')
    case 'rate_limit':
      return rateOf(data, t, format)
    case 'warning':
      return say(of('text')) || of('code')
    // What the label says already need not be said again, in the server's words.
    case 'leased':
    case 'started':
    case 'completed':
      return of('worker_id')
    case 'failed':
      return [of('worker_id'), causeOf(of('error_class'), t)].filter(Boolean).join(' · ')
    case 'requeued':
    case 'cancel_requested':
      return ''
    default:
      return say(of('detail')) || of('reason')
  }
}

const states = ['allowed_warning', 'rejected'] as const
const limits = ['five_hour', 'seven_day'] as const

/** Where the provider's limit stands: how near it is, which it is, until when. */
function rateOf(data: Step['data'], t: TFunction, format: Formats): string {
  const state = states.find((s) => s === data.status)
  const limit = limits.find((l) => l === data.limit)
  const until = typeof data.resets_at === 'number' && data.resets_at > 0 ? data.resets_at : 0
  return [
    state ? t(`task.rate.status.${state}`) : data.status,
    limit ? t(`task.rate.limit.${limit}`) : data.limit,
    until > 0 && t('task.rate.until', { when: format.dateTime(until) }),
  ]
    .filter(Boolean)
    .join(' · ')
}
