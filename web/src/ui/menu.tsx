import { Check } from 'lucide-react'
import { DropdownMenu as Radix } from 'radix-ui'
import type { ReactNode } from 'react'
import { cn } from '@/lib/cn'

const item =
  'flex w-full cursor-default items-center gap-2 rounded-md px-2 py-1.5 text-[13px] outline-none select-none data-highlighted:bg-accent-soft data-disabled:opacity-50'

export function Menu({
  trigger,
  children,
  align = 'end',
  open = false,
}: {
  trigger: ReactNode
  children: ReactNode
  align?: 'start' | 'end'
  /** It is open at first. */
  open?: boolean
}) {
  return (
    <Radix.Root modal={false} defaultOpen={open}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={6}
          collisionPadding={8}
          className="rise z-50 max-h-[70dvh] min-w-44 overflow-y-auto rounded-lg border bg-raised p-1 shadow-float"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

export const MenuItem = ({
  onSelect,
  danger,
  disabled,
  children,
}: {
  onSelect: () => void
  danger?: boolean
  disabled?: boolean
  children: ReactNode
}) => (
  <Radix.Item disabled={disabled} onSelect={onSelect} className={cn(item, danger && 'text-bad')}>
    {children}
  </Radix.Item>
)

export const MenuLabel = ({ children }: { children: ReactNode }) => (
  <Radix.Label className="px-2 pt-1.5 pb-1 text-2xs font-medium text-ink-3">{children}</Radix.Label>
)

export const MenuLine = () => <Radix.Separator className="my-1 h-px bg-line" />

/** Something that is on or off; the menu stays open for the next. */
export const MenuCheck = ({
  checked,
  onChange,
  children,
}: {
  checked: boolean
  onChange: (on: boolean) => void
  children: ReactNode
}) => (
  <Radix.CheckboxItem
    checked={checked}
    onCheckedChange={onChange}
    onSelect={(e) => e.preventDefault()}
    className={item}
  >
    <span className="grid size-4 place-items-center">
      <Radix.ItemIndicator>
        <Check className="size-3.5" aria-hidden />
      </Radix.ItemIndicator>
    </span>
    {children}
  </Radix.CheckboxItem>
)

/** One of several, the chosen one ticked. */
export function MenuChoice<T extends string>({
  value,
  onChange,
  options,
}: {
  value: T
  onChange: (value: T) => void
  options: { value: T; label: string }[]
}) {
  return (
    <Radix.RadioGroup value={value} onValueChange={(v) => onChange(v as T)}>
      {options.map((o) => (
        <Radix.RadioItem key={o.value} value={o.value} className={item}>
          <span className="grid size-4 place-items-center">
            <Radix.ItemIndicator>
              <Check className="size-3.5" aria-hidden />
            </Radix.ItemIndicator>
          </span>
          {o.label}
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  )
}
