import { ChevronDown } from 'lucide-react'
import { type ComponentProps, type FormEvent, type ReactNode, useId, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'

const box =
  'w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-ink-3 transition-colors hover:border-ink-3 disabled:opacity-60 aria-invalid:border-bad'

export const Input = ({ className, ...rest }: ComponentProps<'input'>) => (
  <input {...rest} className={cn(box, 'h-9', className)} />
)

export const Textarea = ({ className, ...rest }: ComponentProps<'textarea'>) => (
  <textarea {...rest} className={cn(box, 'py-2 leading-relaxed', className)} />
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
  const { t } = useTranslation()
  const id = useId()
  const [invalid, setInvalid] = useState<'missing' | 'unfit'>()
  const wrong = (invalid && t(`ui.${invalid}`)) || error
  const note = wrong || hint ? `${id}-note` : undefined
  // The browser would say it in its own language, and in a bubble.
  const say = (event: FormEvent<HTMLElement>) => {
    const control = event.target as HTMLInputElement
    event.preventDefault()
    setInvalid(control.validity.valueMissing ? 'missing' : 'unfit')
    if (control.form?.querySelector('input:invalid, textarea:invalid, select:invalid') === control) control.focus()
  }
  return (
    <div className={cn('min-w-0', className)} onInvalid={say} onInput={() => setInvalid(undefined)}>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      {children({ id, 'aria-describedby': note, 'aria-invalid': wrong ? true : undefined })}
      {note && (
        <p id={note} className={cn('mt-1.5 text-xs', wrong ? 'text-bad' : 'text-ink-3')}>
          {invalid === 'unfit' && hint ? hint : wrong || hint}
        </p>
      )}
    </div>
  )
}
