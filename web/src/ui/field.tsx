import { ChevronDown } from 'lucide-react'
import { type ComponentProps, type ReactNode, useId } from 'react'
import { cn } from '@/lib/cn'

const box =
  'w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-ink-3 transition-colors hover:border-ink-3 disabled:opacity-60 aria-invalid:border-bad'

export const Input = ({ className, ...rest }: ComponentProps<'input'>) => (
  <input {...rest} className={cn(box, 'h-9', className)} />
)

export const Textarea = ({ className, ...rest }: ComponentProps<'textarea'>) => (
  <textarea {...rest} className={cn(box, 'min-h-24 py-2 leading-relaxed', className)} />
)

export function Select({ className, children, ...rest }: ComponentProps<'select'>) {
  return (
    <span className={cn('relative inline-block', className)}>
      <select {...rest} className={cn(box, 'h-9 appearance-none pr-8')}>
        {children}
      </select>
      <ChevronDown className="pointer-events-none absolute top-2.5 right-2.5 size-4 text-ink-3" aria-hidden />
    </span>
  )
}

export function Checkbox({ label, className, ...rest }: ComponentProps<'input'> & { label: ReactNode }) {
  return (
    <label className={cn('inline-flex items-center gap-2 text-sm', className)}>
      <input {...rest} type="checkbox" className="size-4 shrink-0 accent-accent" />
      {label}
    </label>
  )
}

/** A label, one control, and what is wrong with it or what it means. */
export function Field({
  label,
  hint,
  error,
  children,
  className,
}: {
  label: ReactNode
  hint?: ReactNode
  error?: string | undefined
  children: (control: {
    id: string
    'aria-describedby': string | undefined
    'aria-invalid': true | undefined
  }) => ReactNode
  className?: string
}) {
  const id = useId()
  const note = error || hint ? `${id}-note` : undefined
  return (
    <div className={cn('min-w-0', className)}>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      {children({ id, 'aria-describedby': note, 'aria-invalid': error ? true : undefined })}
      {note && (
        <p id={note} className={cn('mt-1.5 text-xs', error ? 'text-bad' : 'text-ink-3')}>
          {error || hint}
        </p>
      )}
    </div>
  )
}
