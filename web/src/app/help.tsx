import { useTranslation } from 'react-i18next'
import { Dialog } from '@/ui/dialog'
import { Kbd } from '@/ui/facts'

const list = [
  { keys: ['Ctrl', 'K'], what: 'palette' },
  { keys: ['/'], what: 'search' },
  { keys: ['N'], what: 'newTask' },
  { keys: ['G', 'O'], what: 'goOverview' },
  { keys: ['G', 'T'], what: 'goTasks' },
  { keys: ['G', 'C'], what: 'goContexts' },
  { keys: ['G', 'A'], what: 'goArtifacts' },
  { keys: ['G', 'S'], what: 'goSchedules' },
  { keys: ['G', 'W'], what: 'goWorkers' },
  { keys: ['?'], what: 'help' },
] as const

/** The keyboard's shortcuts. */
export default function Help({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation()
  return (
    <Dialog open onOpenChange={onClose} title={t('app.shortcuts.title')}>
      <dl className="grid grid-cols-[1fr_auto] gap-y-2.5">
        {list.map(({ keys, what }) => (
          <div key={what} className="contents">
            <dt>{t(`app.shortcuts.${what}`)}</dt>
            <dd className="flex gap-1">
              {keys.map((key) => (
                <Kbd key={key}>{key}</Kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
