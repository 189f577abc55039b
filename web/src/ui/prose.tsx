import { lazy, Suspense } from 'react'
import { LongText } from './code'

const MarkdownText = lazy(() => import('./markdown'))

/** More than this is shown as plain lines: Markdown of it would take seconds. */
const most = 60_000

/** A text as a person reads it: Markdown, or plain lines when it is very long. */
export function Prose({ text }: { text: string }) {
  if (text.length > most) return <LongText text={text} />
  return (
    <Suspense fallback={<p className="leading-relaxed whitespace-pre-wrap wrap-anywhere">{text}</p>}>
      <MarkdownText text={text} />
    </Suspense>
  )
}
