import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'

/** Where a search found a task, with what matches marked. It is text: nothing in it runs. */
export function Snippet({ snippet }: { snippet: NonNullable<Task['snippet']> }) {
  const { t } = useTranslation()
  const parts = inSight(snippet.parts)
  return (
    <>
      {snippet.in === 'output' && <span className="font-normal text-ink-3">{t('ui.snippet.output')} </span>}
      {parts.map((part, i) =>
        part.match ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a snippet keep their order
          <mark key={i} className="rounded-sm bg-accent-soft font-semibold text-accent-strong">
            {part.text}
          </mark>
        ) : (
          part.text
        ),
      )}
    </>
  )
}

type Part = NonNullable<Task['snippet']>['parts'][number]

/** How much of the text before the first match a line shows, in characters. */
const before = 32

/** Lines are cut at their end: what comes before the first match must not push it out of sight. */
function inSight(parts: Part[]): Part[] {
  const [first, ...rest] = parts
  if (!first || first.match || first.text.length <= before) return parts
  const tail = first.text.slice(-before)
  return [{ ...first, text: `… ${tail.slice(tail.indexOf(' ') + 1)}` }, ...rest]
}
