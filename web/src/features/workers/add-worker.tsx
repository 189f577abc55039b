import { KeyRound, TriangleAlert } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCreateKey, useManagesKeys } from '@/features/keys/use-keys'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Command } from '@/ui/facts'
import { Field, Input } from '@/ui/field'
import { Failure } from '@/ui/states'
import { useCommands } from './commands'

/** The commands that make a machine a worker; they name a key only where the server asks for keys. */
export function AddWorker() {
  const { t } = useTranslation()
  const { keyed, onlyHere, named, privateCA, worker, install } = useCommands()
  const [bound, setBound] = useState('"$(hostname)"') // the name that a fresh key opens for
  return (
    <div className="space-y-4 text-left">
      {onlyHere && <OnlyHere />}
      {privateCA && <p className="text-xs text-ink-3">{t('workers.privateCAHint')}</p>}
      {named && <p className="text-[13px] text-ink-2">{t('workers.named')}</p>}
      {keyed && <Install command={install} onKey={setBound} />}
      <section>
        <h3 className="mb-1 text-[13px] font-medium">{onlyHere ? t('workers.here') : t('workers.foreground')}</h3>
        <Command text={worker(bound)} />
        <p className="mt-1.5 text-xs text-ink-3">{keyed ? t('workers.foregroundKey') : t('workers.foregroundHint')}</p>
      </section>
    </div>
  )
}

/** Commands for other machines could not work: what has to change first. */
function OnlyHere() {
  const { t } = useTranslation()
  return (
    <div role="note" className="rounded-lg bg-warn-soft px-3 py-2 text-[13px] text-warn">
      <p className="mb-2 flex items-start gap-2">
        <TriangleAlert className="mt-0.5 size-4 shrink-0" aria-hidden />
        {t('workers.onlyHere')}
      </p>
      <Command text={`bloom server --listen 0.0.0.0:${location.port || '5000'} --runtime-api-key-file admin.key`} />
    </div>
  )
}

/** One line that installs a service. The fresh key of those who may create one opens for that worker alone. */
function Install({
  command,
  onKey,
}: {
  command: (key: string, name?: string) => string
  onKey: (name: string) => void
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const manages = useManagesKeys()
  const create = useCreateKey()
  const [name, setName] = useState('')
  const key = create.data?.key
  const make = (event: FormEvent) => {
    event.preventDefault()
    create.mutate(
      {
        name: t('workers.keyName', { name, when: format.dateTime(Date.now()) }),
        role: 'worker',
        worker_id: name,
      },
      { onSuccess: () => onKey(name) },
    )
  }
  return (
    <section>
      <h3 className="mb-1 text-[13px] font-medium">{t('workers.service')}</h3>
      <Command text={key ? command(key, name) : command('KEY')} />
      {create.error && <Failure error={create.error} className="mt-2" />}
      {key ? (
        <p role="status" className="mt-1.5 text-ink-2">
          {t('workers.keyOnce')}
        </p>
      ) : (
        <>
          {manages && (
            <form onSubmit={make} className="mt-3 flex flex-wrap items-start gap-3">
              <Field label={t('workers.name')} hint={t('workers.nameHint')}>
                {(c) => (
                  <Input
                    {...c}
                    required
                    maxLength={100}
                    pattern="[A-Za-z0-9][A-Za-z0-9._\-]*"
                    value={name}
                    onChange={(e) => setName(e.target.value)}
                  />
                )}
              </Field>
              <Button type="submit" look="primary" className="sm:mt-6.5" busy={create.isPending}>
                <KeyRound className="size-4" aria-hidden />
                {t('workers.makeKey')}
              </Button>
            </form>
          )}
          <p className="mt-2 text-xs text-ink-3">{manages ? t('workers.keyIs') : t('workers.askAdmin')}</p>
        </>
      )}
    </section>
  )
}
