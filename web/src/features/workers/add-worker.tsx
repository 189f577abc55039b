import { useQuery } from '@tanstack/react-query'
import { KeyRound } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { health } from '@/api/queries'
import { useCreateKey, useManagesKeys } from '@/features/keys/use-keys'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Command } from '@/ui/facts'
import { Field, Input } from '@/ui/field'
import { Failure } from '@/ui/states'

/** The commands that make a machine a worker; they name a key only where the server asks for keys. */
export function AddWorker() {
  const { t } = useTranslation()
  const keyed = useQuery(health).data?.auth === 'keys'
  const [bound, setBound] = useState('"$(hostname)"') // the name that a fresh key opens for
  const here = `bloom worker --runtime-url ${location.origin}${keyed ? ' --key-file worker.key' : ''} --name ${bound}`
  return (
    <div className="space-y-4 text-left">
      {keyed && <Install onKey={setBound} />}
      <section>
        <h3 className="mb-1 text-[13px] font-medium">{t('workers.foreground')}</h3>
        <Command text={here} />
        <p className="mt-1.5 text-xs text-ink-3">{keyed ? t('workers.foregroundKey') : t('workers.foregroundHint')}</p>
      </section>
    </div>
  )
}

/** One line that installs a service. The fresh key of those who may create one opens for that worker alone. */
function Install({ onKey }: { onKey: (name: string) => void }) {
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
      <Command
        text={`curl -fsSL ${location.origin}/install.sh | sudo sh -s -- ${key ? `--name ${name} ` : ''}--key ${key ?? 'KEY'}`}
      />
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
