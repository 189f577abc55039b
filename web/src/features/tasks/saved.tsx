import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Bookmark, ChevronDown } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data } from '@/api/client'
import { keys } from '@/api/queries'
import { session } from '@/api/session'
import type { TaskFilters, TaskView } from '@/app/router'
import { Button } from '@/ui/button'
import { Confirm, Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { Menu, MenuItem, MenuLabel, MenuLine } from '@/ui/menu'
import { Failure } from '@/ui/states'
import { toast } from '@/ui/toast'
import { savedOf, viewOf } from './view'

type View = TaskFilters & TaskView

const same = (a: View, b: View) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort())

/** Views that everybody at this installation can choose; saved and deleted by those who may. */
export function Saved({ view, onChange }: { view: View; onChange: (next: View) => void }) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const role = useQuery(session).data?.role
  const list = useQuery({ queryKey: keys.filters, queryFn: () => data(api.GET('/api/runtime/filters')) })
  const [saving, setSaving] = useState(false)
  const [removing, setRemoving] = useState(false)
  const current = list.data?.find((f) => same(viewOf(f), view))?.name
  const changes = role === 'admin' || role === 'client'
  const savable = changes && current === undefined && Object.keys(view).length > 0
  return (
    <>
      <Menu
        align="start"
        trigger={
          <Button>
            <Bookmark className="size-4" aria-hidden />
            <span className="max-w-40 truncate">{current ?? t('tasks.saved.label')}</span>
            <ChevronDown className="size-4 text-ink-3" aria-hidden />
          </Button>
        }
      >
        {list.error && !list.data ? (
          <MenuItem onSelect={() => void list.refetch()}>{t('tasks.saved.failed')}</MenuItem>
        ) : !list.data?.length ? (
          <MenuLabel>{list.isPending ? t('ui.loading') : t('tasks.saved.none')}</MenuLabel>
        ) : (
          list.data.map((f) => (
            <MenuItem key={f.name} onSelect={() => onChange(viewOf(f))}>
              <span className="max-w-64 truncate">{f.name}</span>
            </MenuItem>
          ))
        )}
        {changes && (
          <>
            <MenuLine />
            <MenuItem disabled={!savable} onSelect={() => setSaving(true)}>
              {t('tasks.saved.save')}
            </MenuItem>
            {current !== undefined && (
              <MenuItem danger onSelect={() => setRemoving(true)}>
                {t('tasks.saved.remove', { name: current })}
              </MenuItem>
            )}
          </>
        )}
      </Menu>
      <Dialog
        open={saving}
        onOpenChange={setSaving}
        title={t('tasks.saved.saveTitle')}
        lead={t('tasks.saved.everybody')}
      >
        <Save view={view} onDone={() => setSaving(false)} />
      </Dialog>
      <Confirm
        open={removing}
        onOpenChange={setRemoving}
        title={t('tasks.saved.removeTitle', { name: current ?? '' })}
        lead={t('tasks.saved.removeLead')}
        action={t('tasks.saved.delete')}
        danger
        run={async () => {
          await api.DELETE('/api/runtime/filters/{name}', { params: { path: { name: current ?? '' } } })
          await client.invalidateQueries({ queryKey: keys.filters })
        }}
      />
    </>
  )
}

function Save({ view, onDone }: { view: View; onDone: () => void }) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const [name, setName] = useState('')
  const save = useMutation({
    mutationFn: () =>
      data(api.PUT('/api/runtime/filters/{name}', { params: { path: { name: name.trim() } }, body: savedOf(view) })),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: keys.filters })
      toast(t('tasks.saved.done'))
      onDone()
    },
  })
  const send = (event: FormEvent) => {
    event.preventDefault()
    save.mutate()
  }
  return (
    <form onSubmit={send} className="space-y-4">
      <Field label={t('tasks.saved.name')} hint={t('tasks.saved.nameHint')}>
        {(c) => <Input {...c} required maxLength={64} value={name} onChange={(e) => setName(e.target.value)} />}
      </Field>
      {save.error && <Failure error={save.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>{t('ui.cancel')}</Button>
        <Button type="submit" look="primary" busy={save.isPending}>
          {t('tasks.saved.saveDo')}
        </Button>
      </div>
    </form>
  )
}
