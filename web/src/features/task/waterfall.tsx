import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { MessageSquareText } from 'lucide-react'
import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'
import { useFormat, useNow } from '@/lib/format'
import { Panel } from '@/ui/card'
import { Elapsed } from '@/ui/facts'
import { type Attempt, attemptsOf } from './attempts'
import type { Conversation } from './conversation'
import { AttemptHead } from './conversation-view'
import { type Line, linesOf } from './spans'
import { aboutOf } from './tool-card'

/** What each attempt did when, and what it took: turns, their tools, and subagents. */
export function Waterfall({ conversation, over }: { conversation: Conversation; over: boolean }) {
  const { t } = useTranslation()
  const [chosen, setChosen] = useState<ReadonlyMap<number, boolean>>(new Map())
  const attempts = attemptsOf(conversation.items, chosen)
  if (attempts.length === 0) return null
  return (
    <Panel title={t('task.waterfall.title')} className="mt-5" flush>
      <div className="space-y-2 p-2">
        {attempts.map((attempt) => (
          <section key={attempt.key}>
            {attempts.length > 1 && (
              <AttemptHead
                attempt={attempt}
                onToggle={() => setChosen((old) => new Map(old).set(attempt.epoch, !attempt.open))}
              />
            )}
            {attempt.open && <Lines conversation={conversation} attempt={attempt} over={over} />}
          </section>
        ))}
      </div>
    </Panel>
  )
}

/** The lines of one attempt; only those in sight exist. */
function Lines({ conversation, attempt, over }: { conversation: Conversation; attempt: Attempt; over: boolean }) {
  const { t } = useTranslation()
  const now = useNow()
  const lines = useMemo(() => linesOf(conversation, attempt.epoch), [conversation, attempt.epoch, conversation.events])
  const numbers = useMemo(() => {
    let n = 0
    return lines.map((line) => (line.depth === 0 ? ++n : 0))
  }, [lines])
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  useLayoutEffect(() => {
    const measure = () => box.current && setTop(box.current.getBoundingClientRect().top + scrollY)
    measure()
    const watch = new ResizeObserver(measure)
    watch.observe(document.body)
    return () => watch.disconnect()
  }, [])
  const virtual = useWindowVirtualizer({
    count: lines.length,
    estimateSize: () => 34,
    getItemKey: (i) => lines[i]?.key ?? i,
    overscan: 12,
    scrollMargin: top,
  })
  const end = attempt.end?.at ?? now
  const start = Math.min(attempt.from, end - 1)
  if (lines.length === 0) return <p className="px-2 py-3 text-ink-3">{t('task.waterfall.empty')}</p>
  return (
    // biome-ignore lint/a11y/useSemanticElements: of a list, what is out of sight does not exist
    <div
      ref={box}
      role="list"
      aria-label={t('task.waterfall.title')}
      className="relative"
      style={{ height: virtual.getTotalSize() }}
    >
      {virtual.getVirtualItems().map((row) => {
        const line = lines[row.index]
        return (
          line && (
            // biome-ignore lint/a11y/useSemanticElements: as above
            <div
              key={row.key}
              role="listitem"
              ref={virtual.measureElement}
              data-index={row.index}
              aria-setsize={lines.length}
              aria-posinset={row.index + 1}
              className="absolute inset-x-0"
              style={{ transform: `translateY(${row.start - virtual.options.scrollMargin}px)` }}
            >
              <LineRow
                line={line}
                n={numbers[row.index] ?? 0}
                from={(line.from - start) / (end - start)}
                to={((line.to ?? end) - start) / (end - start)}
                open={line.to === null && !over && attempt.end === null}
              />
            </div>
          )
        )
      })}
    </div>
  )
}

/** One line: what it is, when it was, what it took. open: it goes on. */
function LineRow({ line, n, from, to, open }: { line: Line; n: number; from: number; to: number; open: boolean }) {
  const { t } = useTranslation()
  const format = useFormat()
  const { of } = line
  const about = of.kind === 'tool' ? aboutOf(of) : null
  const Icon = about?.Icon ?? MessageSquareText
  const failed = of.kind === 'tool' && of.result?.failed === true
  const agent = about?.kind === 'agent'
  return (
    <div
      className={cn(
        'grid grid-cols-[minmax(0,1fr)_auto_4.5rem] items-center gap-x-3 rounded-md px-2 py-1.5 text-[13px] hover:bg-sunken sm:grid-cols-[minmax(0,2fr)_minmax(0,3fr)_4.5rem_4.5rem] sm:py-1',
        line.depth === 0 && n > 1 && 'border-t border-line/60',
      )}
    >
      <span className={cn('flex min-w-0 items-center gap-2', indents[Math.min(line.depth, indents.length - 1)])}>
        <Icon className={cn('size-3.5 shrink-0', failed ? 'text-bad' : 'text-ink-3')} aria-hidden />
        <span className={cn('shrink-0', line.depth === 0 ? 'font-medium' : 'text-ink')}>
          {about ? (of.kind === 'tool' && of.name) || t('task.tool') : t('task.waterfall.turn', { n })}
        </span>
        <span className="truncate text-xs text-ink-3" title={about?.text}>
          {about?.text}
        </span>
        {failed && <span className="shrink-0 text-xs font-medium text-bad">{t('task.failed')}</span>}
      </span>
      <span
        className="relative order-last col-span-full mt-1.5 h-1.5 rounded-full bg-sunken sm:order-none sm:col-span-1 sm:mt-0 sm:h-2"
        aria-hidden
      >
        <span
          className={cn(
            'absolute inset-y-0 min-w-0.5 rounded-full',
            failed ? 'bg-bad' : agent ? 'bg-accent' : about ? 'bg-info' : 'bg-ink-3',
            open && 'breathe',
          )}
          style={{
            left: `${Math.min(99.5, Math.max(0, from * 100))}%`,
            width: `${Math.max(0, Math.min(1, to) - Math.max(0, from)) * 100}%`,
          }}
        />
      </span>
      <span className="text-right text-xs text-ink-3">
        {line.tokens > 0 && (
          <span title={t('task.waterfall.tokens', { count: line.tokens, n: format.number(line.tokens) })}>
            <span aria-hidden>{format.compact(line.tokens)}</span>
            <span className="sr-only">
              {t('task.waterfall.tokens', { count: line.tokens, n: format.number(line.tokens) })}
            </span>
          </span>
        )}
      </span>
      <span className="text-right text-xs text-ink-2">
        {line.to === null && !open ? t('task.noAnswer') : <Elapsed from={line.from} to={line.to} />}
      </span>
    </div>
  )
}

const indents = ['', 'pl-4', 'pl-8', 'pl-12', 'pl-16']
