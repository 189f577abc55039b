import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { rememberNotifications, wantsNotifications } from '@/lib/preferences'
import { canNotify } from '@/live/notify'
import { Button } from '@/ui/button'
import { Panel } from '@/ui/card'

/** Whether this browser tells of tasks that end. */
export function Notifications() {
  const { t } = useTranslation()
  const able = canNotify()
  const [permission, setPermission] = useState(able ? Notification.permission : 'denied')
  const [on, setOn] = useState(wantsNotifications())
  const turn = async (next: boolean) => {
    const answer = next ? await Notification.requestPermission() : permission
    setPermission(answer)
    const wanted = next && answer === 'granted'
    rememberNotifications(wanted)
    setOn(wanted)
  }
  const active = on && permission === 'granted'
  return (
    <Panel title={t('settings.notify')}>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="text-[13px] text-ink-2">
          {!able
            ? t('settings.notifyUnable')
            : permission === 'denied'
              ? t('settings.notifyDenied')
              : t('settings.notifyHint')}
        </p>
        {able && permission !== 'denied' && (
          <Button onClick={() => void turn(!active)}>
            {active ? t('settings.notifyOff') : t('settings.notifyOn')}
          </Button>
        )}
      </div>
    </Panel>
  )
}
