import { ChevronRight } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'

const page = 100

/** JSON as a tree that opens and closes. */
export function JsonTree({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  // What is small is open: a click for each of three values says nothing.
  const [open, setOpen] = useState(depth < 2 || (depth < 5 && sizeOf(value) <= 8))
  const [shown, setShown] = useState(page)
  const { t } = useTranslation()
  if (typeof value !== 'object' || value === null) {
    return (
      <div className="flex gap-1.5 py-0.5 pl-5 font-mono text-xs leading-5">
        {name !== undefined && <span className="shrink-0 text-ink-3">{name}:</span>}
        <Leaf value={value} />
      </div>
    )
  }
  const list = Array.isArray(value)
  const entries = Object.entries(value)
  return (
    <div className="font-mono text-xs leading-5">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex w-full items-center gap-1 rounded py-0.5 text-left hover:bg-idle-soft"
      >
        <ChevronRight
          className={cn('size-4 shrink-0 text-ink-3 transition-transform', open && 'rotate-90')}
          aria-hidden
        />
        {name !== undefined && <span className="text-ink-3">{name}:</span>}
        <span className="text-ink-3">{list ? `[${entries.length}]` : `{${entries.length}}`}</span>
      </button>
      {open && (
        <div className="ml-2 border-l pl-2">
          {entries.slice(0, shown).map(([key, child]) => (
            <JsonTree key={key} name={key} value={child} depth={depth + 1} />
          ))}
          {entries.length > shown && (
            <button
              type="button"
              onClick={() => setShown(shown + page)}
              className="pl-5 font-sans text-accent-strong hover:underline"
            >
              {t('ui.showMore', { count: entries.length - shown })}
            </button>
          )}
        </div>
      )}
    </div>
  )
}

const sizeOf = (value: unknown) => (typeof value === 'object' && value !== null ? Object.keys(value).length : 0)

function Leaf({ value }: { value: unknown }) {
  const tone = typeof value === 'string' ? 'text-good' : typeof value === 'number' ? 'text-info' : 'text-accent-strong'
  return <span className={cn('whitespace-pre-wrap wrap-anywhere', tone)}>{JSON.stringify(value) ?? 'null'}</span>
}
