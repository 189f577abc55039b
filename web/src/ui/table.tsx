import type { ComponentProps, ReactNode } from 'react'
import { cn } from '@/lib/cn'
import { ScrollBox } from './scroll-box'

/** A table that scrolls sideways in its own box, never the page. */
export function Table({ label, children, className }: { label: string; children: ReactNode; className?: string }) {
  return (
    <ScrollBox label={label} className="relative overflow-x-auto rounded-card">
      <table className={cn('w-full border-collapse text-[13px]', className)}>{children}</table>
    </ScrollBox>
  )
}

export const Th = ({ className, ...rest }: ComponentProps<'th'>) => (
  <th
    scope="col"
    {...rest}
    className={cn('h-9 border-b bg-surface px-3 text-left text-xs font-medium whitespace-nowrap text-ink-3', className)}
  />
)

/** wrap: its text takes as many lines as it needs. */
export const Td = ({ className, wrap, ...rest }: ComponentProps<'td'> & { wrap?: boolean }) => (
  <td {...rest} className={cn('h-10 border-b px-3 py-1.5 align-middle', !wrap && 'whitespace-nowrap', className)} />
)

export const Tr = ({ className, ...rest }: ComponentProps<'tr'>) => (
  <tr {...rest} className={cn('transition-colors last:*:border-b-0 hover:bg-sunken/60', className)} />
)
