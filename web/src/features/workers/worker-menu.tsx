import { useMutation, useQueryClient } from '@tanstack/react-query'
import { EllipsisVertical } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Worker } from '@/api/client'
import { keys } from '@/api/queries'
import { buttonClass } from '@/ui/button'
import { Confirm, Dialog } from '@/ui/dialog'
import { Menu, MenuItem, MenuLine } from '@/ui/menu'
import { toast, useSayError } from '@/ui/toast'
import { WorkerLogs } from './worker-logs'

/** What can be done with a worker. Its page shows the log anyway. */
export function WorkerMenu({ worker, onRemoved }: { worker: Worker; onRemoved?: () => void }) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const sayError = useSayError()
  const [removing, setRemoving] = useState(false)
  const [logs, setLogs] = useState(false)
  const params = { params: { path: { id: worker.id } } }
  const read = () => client.invalidateQueries({ queryKey: keys.workers })
  const drain = useMutation({
    mutationFn: (on: boolean) => data(api.POST('/api/runtime/workers/{id}/drain', { ...params, body: { drain: on } })),
    onSuccess: (now, on) => {
      toast(on ? t('workers.drained') : now.draining ? t('workers.stillDrained') : t('workers.undrained'))
      void read()
    },
    onError: sayError,
  })
  return (
    <>
      <Menu
        trigger={
          <button
            type="button"
            aria-label={t('workers.actions', { name: worker.id })}
            className={`${buttonClass('ghost', 'icon')} -mr-2`}
          >
            <EllipsisVertical className="size-4" aria-hidden />
          </button>
        }
      >
        {!onRemoved && <MenuItem onSelect={() => setLogs(true)}>{t('workers.logs')}</MenuItem>}
        <MenuItem onSelect={() => drain.mutate(!worker.runtime_drain)}>
          {worker.runtime_drain ? t('workers.undrain') : t('workers.drain')}
        </MenuItem>
        <MenuLine />
        <MenuItem danger onSelect={() => setRemoving(true)}>
          {t('workers.remove')}
        </MenuItem>
      </Menu>
      <Dialog open={logs} onOpenChange={setLogs} title={t('workers.logsTitle', { name: worker.id })} wide>
        <WorkerLogs id={worker.id} />
      </Dialog>
      <Confirm
        open={removing}
        onOpenChange={setRemoving}
        title={t('workers.removeTitle', { name: worker.id })}
        lead={t('workers.removeLead')}
        action={t('workers.remove')}
        danger
        run={async () => {
          await api.DELETE('/api/runtime/workers/{id}', params)
          await read()
          onRemoved?.()
        }}
      />
    </>
  )
}
