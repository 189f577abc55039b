import type { ComponentProps, ReactNode } from 'react'
import { cn } from '@/lib/cn'
import { Tip } from './tip'

type Look = 'primary' | 'secondary' | 'ghost' | 'danger'

const looks: Record<Look, string> = {
  primary: 'bg-accent text-on-accent hover:bg-accent-strong shadow-card',
  secondary: 'border bg-surface text-ink hover:bg-sunken shadow-card',
  ghost: 'text-ink-2 hover:bg-idle-soft hover:text-ink',
  danger: 'border border-bad/40 bg-surface text-bad hover:bg-bad-soft shadow-card',
}

const base =
  'inline-flex shrink-0 items-center justify-center gap-1.5 rounded-lg font-medium whitespace-nowrap transition-colors disabled:opacity-50 disabled:pointer-events-none aria-disabled:opacity-50'

export interface ButtonProps extends ComponentProps<'button'> {
  look?: Look
  size?: Size
  busy?: boolean
}

type Size = 'sm' | 'md' | 'icon'

const sizes: Record<Size, string> = { sm: 'h-8 px-3 text-[13px]', md: 'h-9 px-3.5 text-sm', icon: 'size-9' }

export const buttonClass = (look: Look = 'secondary', size: Size = 'md') => cn(base, looks[look], sizes[size])

export function Button({ look = 'secondary', size = 'md', busy, className, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      className={cn(buttonClass(look, size), busy && 'breathe', className)}
    />
  )
}

export interface IconButtonProps extends ComponentProps<'button'> {
  /** What it does: its accessible name and its tooltip. */
  label: string
  children: ReactNode
  small?: boolean
}

export function IconButton({ label, small, className, ...rest }: IconButtonProps) {
  return (
    <Tip text={label}>
      <button
        type="button"
        aria-label={label}
        {...rest}
        className={cn(base, looks.ghost, small ? 'size-7' : 'size-9', className)}
      />
    </Tip>
  )
}
