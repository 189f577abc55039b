import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'
import { shortId, useFormat, useNow } from '@/lib/format'
import { IconButton } from './button'
import { Tip } from './tip'

/** How long ago, with the exact time on hover. */
export function Ago({ at, className }: { at: number; className?: string }) {
  const format = useFormat()
  const now = useNow()
  return (
    <Tip text={format.dateTime(at)}>
      <time dateTime={new Date(at).toISOString()} className={cn('whitespace-nowrap', className)}>
        {format.relative(at, now)}
      </time>
    </Tip>
  )
}

/** Time that goes on passing: since an instant, or until another one. While it passes its digits are of one width. */
export function Elapsed({ from, to, className }: { from: number; to?: number | null; className?: string }) {
  const format = useFormat()
  const now = useNow()
  return <span className={cn(!to && 'tabular', className)}>{format.duration(Math.max(0, (to ?? now) - from))}</span>
}

/** An id by its last characters, whole on hover. */
export function Id({ id, className }: { id: string; className?: string }) {
  return (
    <Tip text={<span className="font-mono">{id}</span>}>
      <span className={cn('font-mono text-xs whitespace-nowrap', className)}>{shortId(id)}</span>
    </Tip>
  )
}

export function CopyButton({
  text,
  label,
  className,
}: {
  text: string | (() => string)
  label?: string
  className?: string
}) {
  const { t } = useTranslation()
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(false), 1600)
    return () => clearTimeout(timer)
  }, [done])
  const copy = async () => {
    await copyText(typeof text === 'function' ? text() : text)
    setDone(true)
  }
  return (
    <IconButton
      label={done ? t('ui.copied') : (label ?? t('ui.copy'))}
      small
      onClick={() => void copy()}
      className={className}
    >
      {done ? <Check className="size-3.5 text-good" aria-hidden /> : <Copy className="size-3.5" aria-hidden />}
    </IconButton>
  )
}

/** Pages on plain HTTP have no clipboard API. */
export async function copyText(text: string) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  area.style.position = 'fixed'
  area.style.opacity = '0'
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

/** A command to run in a terminal. */
export function Command({ text }: { text: string }) {
  return (
    <div className="flex items-start gap-1 rounded-lg border bg-sunken py-1 pr-1 pl-3 text-left">
      <code className="min-w-0 flex-1 py-1 font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap">{text}</code>
      <CopyButton text={text} />
    </div>
  )
}

export const Kbd = ({ children }: { children: string }) => (
  <kbd className="inline-grid h-5 min-w-5 place-items-center rounded border border-line-strong bg-surface px-1 font-sans text-2xs text-ink-2">
    {children}
  </kbd>
)
