import { type ReactNode, useEffect } from 'react'
import { cn } from '@/lib/cn'

/** Every page: its title in the browser, its one h1, what can be done on it. */
export function Page({
  title,
  tabTitle,
  beside,
  lead,
  actions,
  children,
  narrow,
}: {
  title: ReactNode
  /** The browser tab's title, when the heading is no plain text. */
  tabTitle?: string
  /** What belongs to the title and is no part of it. */
  beside?: ReactNode
  lead?: ReactNode
  actions?: ReactNode
  children: ReactNode
  /** For forms and text, which are hard to read across a wide screen. */
  narrow?: boolean
}) {
  const name = tabTitle ?? (typeof title === 'string' ? title : '')
  useEffect(() => {
    document.title = name ? `${name} · BLOOM` : 'BLOOM'
  }, [name])
  return (
    <div
      className={cn(
        'w-full px-4 pt-5 pb-12 sm:px-6 lg:px-8',
        narrow ? 'max-w-6xl' : 'max-w-[1680px] min-[120rem]:max-w-[2240px]',
      )}
    >
      <header className="mb-5 flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="min-w-0">
          <div className="flex items-center gap-1">
            <h1 className="min-w-0 text-[22px] leading-7 font-semibold tracking-[-0.015em]">{title}</h1>
            {beside}
          </div>
          {lead && <div className="mt-1 max-w-2xl text-ink-2">{lead}</div>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}
