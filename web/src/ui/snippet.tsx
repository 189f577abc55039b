import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'

/** Where a search found a task, with what matches marked. It is text: nothing in it runs. */
export function Snippet({ snippet }: { snippet: NonNullable<Task['snippet']> }) {
  const { t } = useTranslation()
  return (
    <>
      {snippet.in === 'output' && <span className="font-normal text-ink-3">{t('ui.snippet.output')} </span>}
      {snippet.parts.map((part, i) =>
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
