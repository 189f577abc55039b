import { Search } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { cn } from '@/lib/cn'
import { Input } from './field'

/** A text filter; it waits until the person stops typing. */
export function TextFilter({
  name,
  value,
  onChange,
  label,
  search,
}: {
  name: string
  value: string
  onChange: (value: string) => void
  label: string
  search?: boolean
}) {
  const [text, setText] = useState(value)
  const sent = useRef(value)
  const change = useRef(onChange)
  change.current = onChange
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value
      setText(value)
    }
  }, [value])
  useEffect(() => {
    if (text === sent.current) return
    const timer = setTimeout(() => {
      sent.current = text
      change.current(text.trim())
    }, 300)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <span className={cn('relative', search ? 'w-full sm:w-72' : 'w-[calc(50%-0.25rem)] sm:w-44')}>
      {search && <Search className="pointer-events-none absolute top-2.5 left-2.5 size-4 text-ink-3" aria-hidden />}
      <Input
        name={name}
        type="search"
        aria-label={label}
        placeholder={label}
        value={text}
        onChange={(e) => setText(e.target.value)}
        className={search ? 'pl-8' : ''}
        {...(search ? { 'data-search': '' } : {})}
      />
    </span>
  )
}
