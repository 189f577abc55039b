import { EllipsisVertical } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Schedule } from '@/api/client'
import { useReadsOnly } from '@/api/session'
import { buttonClass } from '@/ui/button'
import { Confirm, Dialog } from '@/ui/dialog'
import { Menu, MenuItem, MenuLine } from '@/ui/menu'
import { ScheduleForm } from './form'
import { useScheduleActions } from './use-schedules'

/** What can be done with a schedule. */
export function ScheduleMenu({ schedule, onRemoved }: { schedule: Schedule; onRemoved?: () => void }) {
  const { t } = useTranslation()
  const { run, pause, resume, remove } = useScheduleActions(schedule.name)
  const [editing, setEditing] = useState(false)
  const [removing, setRemoving] = useState(false)
  if (useReadsOnly()) return null
  const { name } = schedule
  return (
    <>
      <Menu
        trigger={
          <button
            type="button"
            aria-label={t('schedules.actions', { name })}
            className={`${buttonClass('ghost', 'icon')} -mr-2`}
          >
            <EllipsisVertical className="size-4" aria-hidden />
          </button>
        }
      >
        <MenuItem onSelect={() => run.mutate()}>{t('schedules.run')}</MenuItem>
        {schedule.paused ? (
          <MenuItem onSelect={() => resume.mutate()}>{t('schedules.resume')}</MenuItem>
        ) : (
          <MenuItem onSelect={() => pause.mutate()}>{t('schedules.pause')}</MenuItem>
        )}
        <MenuItem onSelect={() => setEditing(true)}>{t('schedules.edit')}</MenuItem>
        <MenuLine />
        <MenuItem danger onSelect={() => setRemoving(true)}>
          {t('schedules.remove')}
        </MenuItem>
      </Menu>
      <Dialog open={editing} onOpenChange={setEditing} title={t('schedules.editTitle', { name })} wide>
        <ScheduleForm of={schedule} onDone={() => setEditing(false)} />
      </Dialog>
      <Confirm
        open={removing}
        onOpenChange={setRemoving}
        title={t('schedules.removeTitle', { name })}
        lead={t('schedules.removeLead')}
        action={t('schedules.remove')}
        danger
        run={async () => {
          await remove()
          onRemoved?.()
        }}
      />
    </>
  )
}
