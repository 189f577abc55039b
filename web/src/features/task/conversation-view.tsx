import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown } from 'lucide-react'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Download } from '@/ui/download'
import { Prose } from '@/ui/prose'
import { ScrollBox } from '@/ui/scroll-box'
import { Failure, SkeletonRows } from '@/ui/states'
import type { Item } from './conversation'
import { Row } from './rows'
import type { Stream } from './use-stream'

const sizes: Record<Item['kind'], number> = { text: 120, thinking: 34, stderr: 90, tool: 52, step: 30 }
const near = 140

/** The run as a conversation. Only what is in sight exists; at the end it follows what comes. */
export function ConversationView({
  taskId,
  stream,
  prompt,
  over,
}: {
  taskId: string
  stream: Stream
  prompt: string
  over: boolean
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const { items, events } = stream.conversation
  const list = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [following, setFollowing] = useState(false)

  // biome-ignore lint/correctness/useExhaustiveDependencies: what is above may have grown with the stream
  useLayoutEffect(() => {
    if (list.current) setTop(list.current.getBoundingClientRect().top + scrollY)
  }, [items.length > 0])

  const virtual = useWindowVirtualizer({
    count: items.length,
    estimateSize: (i) => sizes[items[i]?.kind ?? 'text'],
    getItemKey: (i) => items[i]?.key ?? i,
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
      <div className="mb-4 rounded-card border border-accent/25 bg-accent-soft/50 px-4 py-3">
        <p className="mb-1 text-xs font-medium text-accent-strong">{t('task.prompt')}</p>
        <ScrollBox label={t('task.prompt')} className="max-h-80 overflow-y-auto">
          <Prose text={prompt} />
        </ScrollBox>
      </div>
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
          const item = items[row.index]
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
                <Row item={item} over={over} />
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
            from={`/api/runtime/llm-tasks/${taskId}/events`}
            accept="application/x-ndjson"
            name={`run-${taskId.slice(-8)}.jsonl`}
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
