import type { ComponentProps, ReactNode } from 'react'
import { cn } from '@/lib/cn'

export const Card = ({ className, ...rest }: ComponentProps<'section'>) => (
  <section {...rest} className={cn('min-w-0 rounded-card border bg-surface shadow-card', className)} />
)

/** A card with a heading and, at its right, what can be done with it. */
export function Panel({
  title,
  actions,
  children,
  className,
  flush,
}: {
  title: ReactNode
  actions?: ReactNode
  children: ReactNode
  className?: string
  /** The content reaches the card's edges: tables do. */
  flush?: boolean
}) {
  return (
    <Card className={className}>
      <header className="flex min-h-11.5 items-center justify-between gap-3 border-b px-4 py-1.5">
        <h2 className="text-[13px] font-semibold text-ink">{title}</h2>
        {actions && <div className="flex items-center gap-1">{actions}</div>}
      </header>
      <div className={cn(!flush && 'p-4 *:[[role=alert]]:m-0')}>{children}</div>
    </Card>
  )
}

/** Names and values, one line each. */
export function Facts({ children, className }: { children: ReactNode; className?: string }) {
  return (
    <dl className={cn('grid grid-cols-[minmax(6.5rem,auto)_1fr] gap-x-4 gap-y-2 text-[13px]', className)}>
      {children}
    </dl>
  )
}

export function Fact({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-3">{name}</dt>
      <dd className="min-w-0 text-ink wrap-anywhere">{children}</dd>
    </>
  )
}
