import { X } from 'lucide-react'
import { Dialog as Radix } from 'radix-ui'
import { type ReactNode, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'
import { Button, IconButton } from './button'
import { Failure } from './states'

/** Gives the focus back to where it was: Radix does so only for triggers of its own. */
export function useFocusBack() {
  const before = useRef<Element | null>(null)
  return {
    onOpenAutoFocus: (event: Event) => {
      before.current = document.activeElement
      const content = event.currentTarget
      if (!(content instanceof HTMLElement)) return
      // Its first field, or else the dialog itself: not the button that closes it, with its tooltip.
      event.preventDefault()
      const field = content.querySelector<HTMLElement>('input, textarea, select')
      ;(field ?? content).focus()
    },
    onCloseAutoFocus: (event: Event) => {
      event.preventDefault()
      const to = before.current instanceof HTMLElement && before.current.isConnected ? before.current : null
      if (to && to !== document.body) to.focus()
      else document.getElementById('main')?.focus({ preventScroll: true })
    },
  }
}

export function Dialog({
  open,
  onOpenChange,
  title,
  lead,
  children,
  wide,
}: {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: string
  lead?: ReactNode
  children: ReactNode
  /** For what is read; most: for files. */
  wide?: boolean | 'most'
}) {
  const { t } = useTranslation()
  const focus = useFocusBack()
  return (
    <Radix.Root open={open} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <Radix.Overlay className="appear fixed inset-0 z-40 bg-[#0b0a10]/45" />
        <Radix.Content
          {...focus}
          {...(lead ? {} : { 'aria-describedby': undefined })}
          className={cn(
            'rise fixed top-[12vh] left-1/2 z-40 max-h-[80dvh] w-[calc(100vw-2rem)] -translate-x-1/2 overflow-y-auto rounded-xl border bg-raised p-5 shadow-float outline-none',
            wide === 'most' ? 'max-w-4xl' : wide ? 'max-w-2xl' : 'max-w-md',
          )}
        >
          <div className="mb-4 flex items-start justify-between gap-4">
            <div className="min-w-0">
              <Radix.Title className="text-base font-semibold wrap-anywhere">{title}</Radix.Title>
              {lead && <Radix.Description className="mt-1 text-ink-2">{lead}</Radix.Description>}
            </div>
            <Radix.Close asChild>
              <IconButton label={t('ui.close')} small className="-mt-1 -mr-1.5">
                <X className="size-4" aria-hidden />
              </IconButton>
            </Radix.Close>
          </div>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

/** Asks before something that cannot be undone, and shows why it failed. */
export function Confirm({
  open,
  onOpenChange,
  title,
  lead,
  action,
  danger,
  disabled,
  run,
  children,
}: {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: string
  lead: ReactNode
  action: string
  danger?: boolean
  /** It cannot be done yet. */
  disabled?: boolean
  run: () => Promise<unknown>
  children?: ReactNode
}) {
  const { t } = useTranslation()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const close = (next: boolean) => {
    if (busy) return
    setError(undefined)
    onOpenChange(next)
  }
  const go = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await run()
      onOpenChange(false)
    } catch (e) {
      setError(e)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog open={open} onOpenChange={close} title={title} lead={lead}>
      {children}
      {error !== undefined && <Failure error={error} className="mb-4" />}
      <div className="flex justify-end gap-2">
        {/* Not "Cancel": what is asked may be whether to cancel something. */}
        <Button onClick={() => close(false)}>{t('ui.back')}</Button>
        <Button look={danger ? 'danger' : 'primary'} busy={busy} disabled={disabled} onClick={go}>
          {action}
        </Button>
      </div>
    </Dialog>
  )
}
