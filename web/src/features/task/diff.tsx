import { diffLines } from 'diff'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'
import { useHighlight } from '@/ui/highlight'
import { ScrollBox } from '@/ui/scroll-box'

interface Line {
  sign: '+' | '-' | ' '
  text: string
  /** Its place in the text that it is of: before where it is removed, else after. */
  at: number
}

const first = 40

/** What a change adds and removes, line by line. */
export function Diff({ before, after, language = '' }: { before: string; after: string; language?: string }) {
  const { t } = useTranslation()
  const [open, setOpen] = useState(false)
  const lines = useMemo(() => linesOf(before, after), [before, after])
  const old = useHighlight(before, language)
  const now = useHighlight(after, language)
  const shown = open ? lines : lines.slice(0, first)
  const added = lines.filter((l) => l.sign === '+').length
  const removed = lines.filter((l) => l.sign === '-').length
  return (
    <div className="overflow-hidden rounded-lg border">
      <p className="flex gap-2 border-b bg-sunken px-3 py-1 font-mono text-2xs tabular">
        <span className="text-good">+{added}</span>
        <span className="text-bad">−{removed}</span>
      </p>
      <ScrollBox label={t('task.change')} className="max-h-[28rem] overflow-auto">
        <pre className="w-max min-w-full font-mono text-xs leading-5">
          {shown.map((line, i) => (
            <div
              // biome-ignore lint/suspicious/noArrayIndexKey: lines of a diff have no other name
              key={i}
              className={cn(
                'px-3',
                line.sign === '+' && 'bg-good-soft',
                line.sign === '-' && 'bg-bad-soft',
                !now && (line.sign === '+' ? 'text-good' : line.sign === '-' && 'text-bad'),
              )}
            >
              <span
                className={cn(
                  'inline-block w-4 select-none',
                  line.sign === '+' ? 'text-good' : line.sign === '-' && 'text-bad',
                )}
              >
                {line.sign}
              </span>
              {(line.sign === '-' ? old : now)?.[line.at] ?? line.text}
            </div>
          ))}
        </pre>
      </ScrollBox>
      {lines.length > shown.length && (
        <button
          type="button"
          onClick={() => setOpen(true)}
          className="w-full border-t px-3 py-1.5 text-left text-xs font-medium text-accent-strong hover:bg-accent-soft"
        >
          {t('ui.showMore', { count: lines.length - shown.length })}
        </button>
      )}
    </div>
  )
}

function linesOf(before: string, after: string): Line[] {
  const at = { old: 0, now: 0 }
  const split = (text: string, sign: Line['sign']) =>
    text
      .replace(/\n$/, '')
      .split('\n')
      .map((text) => {
        const line = { sign, text, at: sign === '-' ? at.old : at.now }
        if (sign !== '+') at.old++
        if (sign !== '-') at.now++
        return line
      })
  if (before === '') return after === '' ? [] : split(after, '+')
  if (before.length + after.length > 200_000) return [...split(before, '-'), ...split(after, '+')]
  return diffLines(before, after).flatMap((part) => split(part.value, part.added ? '+' : part.removed ? '-' : ' '))
}
