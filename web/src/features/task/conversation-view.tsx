import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, ChevronRight } from 'lucide-react'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Download } from '@/ui/download'
import { Elapsed } from '@/ui/facts'
import { Failure, SkeletonRows } from '@/ui/states'
import { Asked } from './asked'
import { type Attempt, rowsOf } from './attempts'
import type { Item } from './conversation'
import { Row } from './rows'
import type { Stream } from './use-stream'

const sizes: Record<(Item | Attempt)['kind'], number> = {
  attempt: 40,
  text: 120,
  thinking: 34,
  stderr: 90,
  tool: 52,
  step: 30,
}
const near = 140

/** The run as a conversation. Only what is in sight exists; at the end it follows what comes. */
export function ConversationView({ task, stream, over }: { task: Task; stream: Stream; over: boolean }) {
  const { t } = useTranslation()
  const format = useFormat()
  const { items, events } = stream.conversation
  const [chosen, setChosen] = useState<ReadonlyMap<number, boolean>>(new Map())
  // The list of items stays the same while it grows.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it has changed when the stream has another version
  const rows = useMemo(() => rowsOf(items, chosen), [stream.version, chosen, items])
  const list = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [following, setFollowing] = useState(false)

  // biome-ignore lint/correctness/useExhaustiveDependencies: what is above may have grown with the stream
  useLayoutEffect(() => {
    if (list.current) setTop(list.current.getBoundingClientRect().top + scrollY)
  }, [items.length > 0])

  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: (i) => sizes[rows[i]?.kind ?? 'text'],
    getItemKey: (i) => rows[i]?.key ?? i,
    overscan: 8,
    scrollMargin: top,
    gap: 14,
  })

  useEffect(() => {
    const look = () =>
      setFollowing(innerHeight + scrollY >= document.documentElement.scrollHeight - near && scrollY > 0)
    addEventListener('scroll', look, { passive: true })
    return () => removeEventListener('scroll', look)
  }, [])

  const size = virtual.getTotalSize()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the page is scrolled when the conversation grows
  useLayoutEffect(() => {
    if (following && !over) scrollTo({ top: document.documentElement.scrollHeight })
  }, [size])

  return (
    <div>
      <Asked task={task} />
      {stream.state === 'failed' && <Failure error={stream.error} className="mb-4" />}
      {stream.state === 'loading' && items.length === 0 && <SkeletonRows rows={4} />}
      <div
        ref={list}
        data-testid="conversation"
        data-events={events}
        data-last={stream.conversation.lastSeq}
        className="relative"
        style={{ height: size }}
      >
        {virtual.getVirtualItems().map((row) => {
          const item = rows[row.index]
          return (
            item && (
              <div
                key={row.key}
                ref={virtual.measureElement}
                data-index={row.index}
                data-seq={item.key}
                className="absolute inset-x-0"
                style={{ transform: `translateY(${row.start - virtual.options.scrollMargin}px)` }}
              >
                {item.kind === 'attempt' ? (
                  <AttemptHead
                    attempt={item}
                    onToggle={() => setChosen((old) => new Map(old).set(item.epoch, !item.open))}
                  />
                ) : (
                  <Row item={item} over={over} />
                )}
              </div>
            )
          )
        })}
      </div>
      <div role="status" className="mt-4 flex items-center gap-2 text-xs text-ink-3">
        {stream.state === 'live' && !over && (
          <>
            <span aria-hidden className="breathe size-2 rounded-full bg-info" />
            {items.some((i) => i.kind === 'step') ? t('task.stream.live') : t('task.stream.waiting')}
          </>
        )}
        {stream.state === 'reconnecting' && (
          <>
            <span aria-hidden className="breathe size-2 rounded-full bg-warn" />
            {t('task.stream.reconnecting')}
          </>
        )}
        {stream.state === 'ended' && t('task.stream.ended', { count: events, events: format.number(events) })}
        {stream.state === 'ended' && (
          <Download
            from={`/api/runtime/llm-tasks/${task.id}/events`}
            accept="application/x-ndjson"
            name={`run-${task.id.slice(-8)}.jsonl`}
            label={t('task.stream.save')}
          />
        )}
      </div>
      {!following && !over && items.length > 12 && (
        <Button
          size="sm"
          className="fixed bottom-5 left-1/2 z-20 -translate-x-1/2 rounded-full shadow-float"
          onClick={() => scrollTo({ top: document.documentElement.scrollHeight })}
        >
          <ArrowDown className="size-3.5" aria-hidden />
          {t('task.toEnd')}
        </Button>
      )}
    </div>
  )
}

const tones: Record<string, string> = {
  completed: 'text-good',
  failed: 'text-bad',
  dead: 'text-bad',
  expired: 'text-bad',
}

/** The line of an attempt that shows or hides what happened in it. */
export function AttemptHead({ attempt, onToggle }: { attempt: Attempt; onToggle: () => void }) {
  const { t } = useTranslation()
  const { end } = attempt
  return (
    <button
      type="button"
      aria-expanded={attempt.open}
      onClick={onToggle}
      className="flex min-h-9 w-full items-center gap-2.5 rounded-lg border bg-sunken px-3 py-1.5 text-left text-xs hover:border-line-strong"
    >
      <ChevronRight
        className={cn('size-4 shrink-0 text-ink-3 transition-transform', attempt.open && 'rotate-90')}
        aria-hidden
      />
      <span className="shrink-0 text-[13px] font-medium">{t('task.attempt', { n: attempt.n })}</span>
      <span className="min-w-0 flex-1 truncate text-ink-2">{attempt.worker}</span>
      {end && (
        <span className={cn('min-w-0 truncate font-medium', tones[end.type] ?? 'text-warn')}>
          {t(`task.step.${end.type as 'leased'}`)}
        </span>
      )}
      <span className="shrink-0 text-ink-3">
        <Elapsed from={attempt.from} to={end?.at ?? null} />
      </span>
    </button>
  )
}
