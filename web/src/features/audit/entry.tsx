import { useTranslation } from 'react-i18next'
import type { AuditEntry } from '@/api/client'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { Fact, Facts } from '@/ui/card'
import { Dialog } from '@/ui/dialog'
import { CopyButton } from '@/ui/facts'
import { JsonTree } from '@/ui/json-tree'
import { useActionName } from './action-name'

/** All of an entry: also where it came from, the state it left, and its place in the chain of hashes. */
export function Entry({ entry: e, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const { t } = useTranslation()
  const nameOfAction = useActionName()
  const format = useFormat()
  return (
    <Dialog open wide onOpenChange={onClose} title={nameOfAction(e.action)} lead={say(e.detail)}>
      <Facts>
        <Fact name={t('audit.when')}>{format.dateTime(e.timestamp)}</Fact>
        <Fact name={t('audit.action')}>
          <span className="font-mono text-xs">{e.action}</span>
        </Fact>
        <Fact name={t('audit.about')}>
          <span className="font-mono text-xs">{e.entity_id}</span>
        </Fact>
        <Fact name={t('audit.who')}>{e.actor}</Fact>
        {e.key_id && <Fact name={t('audit.key')}>{e.key_id}</Fact>}
        {e.address && <Fact name={t('audit.address')}>{e.address}</Fact>}
        <Fact name={t('audit.seq')}>
          <span className="tabular">{format.number(e.seq)}</span>
        </Fact>
        <Fact name={t('audit.hash')}>
          {e.hash ? (
            <span className="flex items-start gap-1">
              <span className="font-mono text-xs leading-5">{e.hash}</span>
              <CopyButton text={e.hash} label={t('audit.copyHash')} className="-my-1" />
            </span>
          ) : (
            t('audit.unchained')
          )}
        </Fact>
      </Facts>
      {typeof e.data === 'object' && e.data !== null && Object.keys(e.data).length > 0 && (
        <section className="mt-4 rounded-lg border bg-sunken p-2">
          <h3 className="px-1 pb-1 text-xs font-medium text-ink-3">{t('audit.data')}</h3>
          <JsonTree value={e.data} />
        </section>
      )}
      <p className="mt-4 text-xs text-ink-3">{t('audit.chainHint')}</p>
    </Dialog>
  )
}
