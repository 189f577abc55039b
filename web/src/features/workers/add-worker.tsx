import { useQuery } from '@tanstack/react-query'
import { KeyRound } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { health } from '@/api/queries'
import { useCreateKey, useManagesKeys } from '@/features/keys/use-keys'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Command } from '@/ui/facts'
import { Failure } from '@/ui/states'

/** The commands that make a machine a worker; they name a key only where the server asks for keys. */
export function AddWorker() {
  const { t } = useTranslation()
  const keyed = useQuery(health).data?.auth === 'keys'
  const here = `bloom worker --runtime-url ${location.origin}${keyed ? ' --key-file worker.key' : ''} --name "$(hostname)"`
  return (
    <div className="space-y-4 text-left">
      {keyed && <Install />}
      <section>
        <h3 className="mb-1 text-[13px] font-medium">{t('workers.foreground')}</h3>
        <Command text={here} />
        <p className="mt-1.5 text-xs text-ink-3">{keyed ? t('workers.foregroundKey') : t('workers.foregroundHint')}</p>
      </section>
    </div>
  )
}

/** One line that installs a service, with a fresh key for those who may create one. */
function Install() {
  const { t } = useTranslation()
  const format = useFormat()
  const manages = useManagesKeys()
  const create = useCreateKey()
  const key = create.data?.key
  return (
    <section>
      <h3 className="mb-1 text-[13px] font-medium">{t('workers.service')}</h3>
      <Command text={`curl -fsSL ${location.origin}/install.sh | sudo sh -s -- --key ${key ?? 'KEY'}`} />
      {create.error && <Failure error={create.error} className="mt-2" />}
      {key ? (
        <p role="status" className="mt-1.5 text-ink-2">
          {t('workers.keyOnce')}
        </p>
      ) : (
        <div className="mt-2 flex flex-wrap items-center gap-x-3 gap-y-2">
          {manages && (
            <Button
              size="sm"
              look="primary"
              busy={create.isPending}
              onClick={() =>
                create.mutate({ name: t('workers.keyName', { when: format.dateTime(Date.now()) }), role: 'worker' })
              }
            >
              <KeyRound className="size-4" aria-hidden />
              {t('workers.makeKey')}
            </Button>
          )}
          <p className="min-w-0 flex-1 basis-60 text-xs text-ink-3">
            {manages ? t('workers.keyIs') : t('workers.askAdmin')}
          </p>
        </div>
      )}
    </section>
  )
}
