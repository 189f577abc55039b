import { X } from 'lucide-react'
import { Dialog } from 'radix-ui'
import { useTranslation } from 'react-i18next'
import { IconButton } from '@/ui/button'
import { Connection } from './connection'
import { Logo } from './logo'
import { Nav } from './nav'

/** The navigation as a drawer over a narrow screen. */
export default function MobileNav({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation()
  return (
    <Dialog.Root open onOpenChange={onClose}>
      <Dialog.Portal>
        <Dialog.Overlay className="appear fixed inset-0 z-40 bg-[#0b0a10]/45" />
        <Dialog.Content
          aria-describedby={undefined}
          className="appear fixed inset-y-0 left-0 z-40 flex w-72 max-w-[85vw] flex-col gap-5 overflow-y-auto border-r bg-canvas px-3 py-4"
        >
          <div className="flex items-center justify-between">
            <Logo />
            <Dialog.Close asChild>
              <IconButton label={t('ui.close')}>
                <X className="size-4" aria-hidden />
              </IconButton>
            </Dialog.Close>
          </div>
          <Dialog.Title className="sr-only">{t('app.nav.label')}</Dialog.Title>
          <Nav onGo={onClose} />
          <Connection />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
