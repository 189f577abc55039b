import { useVirtualizer } from '@tanstack/react-virtual'
import { Fragment, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { CopyButton } from './facts'
import { useHighlight } from './highlight'
import { ScrollBox } from './scroll-box'

/** Text as it is, with a way to copy it. Long text shows its beginning first. */
export function CodeBlock({
  text,
  limit = 40,
  tone,
  language = '',
  label,
}: {
  text: string
  /** Lines that are shown at first. */
  limit?: number
  tone?: 'bad' | undefined
  /** The name or file ending of the language that it is written in. */
  language?: string
  label?: string
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const [open, setOpen] = useState(false)
  const lines = useMemo(() => text.split('\n'), [text])
  const cut = !open && (lines.length > limit || text.length > 20_000)
  const shown = cut ? lines.slice(0, limit).join('\n').slice(0, 20_000) : text
  const highlighted = useHighlight(shown, language)
  return (
    <div
      className={cn(
        'group/code relative rounded-lg border',
        tone === 'bad' ? 'border-bad/30 bg-bad-soft' : 'bg-sunken',
      )}
    >
      <CopyButton
        text={text}
        className="absolute top-1 right-1 z-10 bg-sunken opacity-0 group-hover/code:opacity-100 focus-visible:opacity-100"
      />
      {open && text.length > 100_000 ? (
        <LongText text={text} />
      ) : (
        <ScrollBox label={label ?? t('ui.code')} className="max-h-[28rem] overflow-auto">
          <pre className="px-3 py-2 font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">
            {highlighted?.map((line, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name
              <Fragment key={i}>
                {i > 0 && '\n'}
                {line}
              </Fragment>
            )) ?? shown}
          </pre>
        </ScrollBox>
      )}
      {cut && (
        <button
          type="button"
          onClick={() => setOpen(true)}
          className="w-full rounded-b-lg border-t px-3 py-1.5 text-left text-xs font-medium text-accent-strong hover:bg-accent-soft"
        >
          {t('ui.showAll', {
            count: lines.length,
            lines: format.number(lines.length),
            size: format.bytes(text.length),
          })}
        </button>
      )}
    </div>
  )
}

/** Text of any length: only the lines in sight exist. */
export function LongText({ text, className }: { text: string; className?: string }) {
  const { t } = useTranslation()
  const box = useRef<HTMLDivElement>(null)
  const lines = useMemo(() => wrap(text), [text])
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => 20,
    overscan: 20,
  })
  return (
    <ScrollBox
      ref={box}
      label={t('ui.code')}
      className={cn('h-[32rem] overflow-auto rounded-lg bg-sunken font-mono text-xs leading-5', className)}
    >
      <div className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((row) => (
          <div
            key={row.key}
            className="absolute inset-x-0 h-5 px-3 whitespace-pre"
            style={{ transform: `translateY(${row.start}px)` }}
          >
            {lines[row.index]}
          </div>
        ))}
      </div>
    </ScrollBox>
  )
}

/** Lines of at most 400 characters: one line of a megabyte would freeze the page. */
function wrap(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    if (line.length <= 400) return [line]
    const parts: string[] = []
    for (let i = 0; i < line.length; i += 400) parts.push(line.slice(i, i + 400))
    return parts
  })
}
