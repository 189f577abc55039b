import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError, type CreatedKey, type KeyRole } from '@/api/client'
import { say } from '@/i18n/said'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Command } from '@/ui/facts'
import { Field, Input, Select } from '@/ui/field'
import { Failure } from '@/ui/states'
import { useCreateKey } from './use-keys'

const roles: KeyRole[] = ['client', 'worker', 'approver', 'viewer', 'admin']
/** Days that a key holds; 0 never expires. */
const lives = [7, 30, 90, 365, 0] as const
const day = 86_400_000

/** Creates a key, then shows it this once. */
export function NewKey({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }) {
  const { t } = useTranslation()
  const [made, setMade] = useState<CreatedKey>()
  const change = (next: boolean) => {
    if (!next) setMade(undefined)
    onOpenChange(next)
  }
  return (
    <Dialog
      open={open}
      onOpenChange={change}
      title={made ? t('keys.madeTitle', { name: made.name }) : t('keys.new')}
      lead={made ? t('keys.once') : t('keys.newLead')}
    >
      {made ? (
        <>
          <Command text={made.key} />
          <div className="mt-4 flex justify-end">
            <Button look="primary" onClick={() => change(false)}>
              {t('keys.done')}
            </Button>
          </div>
        </>
      ) : (
        <Form onMade={setMade} onCancel={() => change(false)} />
      )}
    </Dialog>
  )
}

function Form({ onMade, onCancel }: { onMade: (key: CreatedKey) => void; onCancel: () => void }) {
  const { t } = useTranslation()
  const [name, setName] = useState('')
  const [role, setRole] = useState<KeyRole>('client')
  const [life, setLife] = useState<number>(90)
  const [worker, setWorker] = useState('')
  const create = useCreateKey()
  const problems = new Map(
    create.error instanceof ApiError ? create.error.details.map((d) => [d.field, say(d.message)]) : [],
  )
  const send = (event: FormEvent) => {
    event.preventDefault()
    create.mutate(
      {
        name: name.trim(),
        role,
        expires_at: life ? Date.now() + life * day : 0,
        ...(role === 'worker' && worker.trim() ? { worker_id: worker.trim() } : {}),
      },
      { onSuccess: onMade },
    )
  }
  return (
    <form onSubmit={send} className="space-y-4">
      <Field label={t('keys.name')} hint={t('keys.nameHint')} error={problems.get('name')}>
        {(c) => <Input {...c} required maxLength={128} value={name} onChange={(e) => setName(e.target.value)} />}
      </Field>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label={t('keys.role')} hint={t(`keys.may.${role}`)} error={problems.get('role')}>
          {(c) => (
            <Select {...c} className="w-full" value={role} onChange={(e) => setRole(e.target.value as KeyRole)}>
              {roles.map((r) => (
                <option key={r} value={r}>
                  {t(`keys.is.${r}`)}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label={t('keys.expires')} error={problems.get('expires_at')}>
          {(c) => (
            <Select {...c} className="w-full" value={life} onChange={(e) => setLife(Number(e.target.value))}>
              {lives.map((n) => (
                <option key={n} value={n}>
                  {n ? t('keys.days', { count: n }) : t('keys.never')}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      {role === 'worker' && (
        <Field label={t('keys.worker')} hint={t('keys.workerHint')} error={problems.get('worker_id')}>
          {(c) => <Input {...c} value={worker} onChange={(e) => setWorker(e.target.value)} />}
        </Field>
      )}
      {create.error && <Failure error={create.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onCancel}>{t('ui.cancel')}</Button>
        <Button type="submit" look="primary" busy={create.isPending}>
          {t('keys.create')}
        </Button>
      </div>
    </form>
  )
}
