import { Link } from '@tanstack/react-router'
import { ScrollText } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type AuditEntry, api, page } from '@/api/client'
import { keys } from '@/api/queries'
import { say } from '@/i18n/said'
import { shortId } from '@/lib/format'
import { Export } from '@/ui/export'
import { Ago, Id } from '@/ui/facts'
import { Input, Select } from '@/ui/field'
import { Page } from '@/ui/page'
import { Paged } from '@/ui/paged'
import { Td, Th, Tr } from '@/ui/table'
import { useActionName } from './action-name'
import { Entry } from './entry'

/** As the server names them. */
export const actions = [
  'task_created',
  'task_leased',
  'task_started',
  'task_completed',
  'task_retried',
  'task_released',
  'task_requeued',
  'task_cancelled',
  'task_expired',
  'task_dead',
  'lease_lost',
  'worker_registered',
  'worker_updated',
  'worker_removed',
  'worker_online',
  'worker_offline',
  'config_updated',
  'connection_test',
  'worker_drain',
  'leadership_promote',
  'sync_requested',
  'artifact_added',
  'key_created',
  'key_revoked',
  'login',
  'session_ended',
  'request_refused',
  'secrets_rotated',
  'context_changed',
  'context_forgotten',
  'task_imported',
  'artifacts_moved',
  'tasks_matched',
  'audit_forked',
  'approval_asked',
  'approval_decided',
  'task_suspended',
  'schedule_saved',
  'schedule_removed',
  'schedule_started',
  'schedule_skipped',
  'filter_saved',
  'filter_removed',
  'tasks_removed',
  'events_removed',
  'audit_removed',
] as const

export default function Audit() {
  const { t } = useTranslation()
  const nameOfAction = useActionName()
  const [action, setAction] = useState('')
  const [entity, setEntity] = useState('')
  const [shown, setShown] = useState<AuditEntry>()
  const filters = { ...(action ? { action } : {}), ...(entity.trim() ? { entity_id: entity.trim() } : {}) }
  const read = (cursor: string | undefined, limit = 50) =>
    page<AuditEntry>(
      api.GET('/api/runtime/audit', { params: { query: { ...filters, limit, ...(cursor ? { cursor } : {}) } } }),
    )
  return (
    <Page title={t('audit.title')} lead={t('audit.lead')} actions={<Export name="audit" read={read} csv={csv} />}>
      <div className="mb-4 flex flex-wrap gap-2">
        <Select
          aria-label={t('audit.action')}
          value={action}
          onChange={(e) => setAction(e.target.value)}
          className="w-full sm:w-56"
        >
          <option value="">{t('audit.any')}</option>
          {actions.map((a) => (
            <option key={a} value={a}>
              {nameOfAction(a)}
            </option>
          ))}
        </Select>
        <Input
          data-search=""
          type="search"
          aria-label={t('audit.entity')}
          placeholder={t('audit.entity')}
          value={entity}
          onChange={(e) => setEntity(e.target.value)}
          className="sm:w-72"
        />
      </div>
      <Paged<AuditEntry>
        label={t('audit.title')}
        queryKey={[...keys.audit, action, entity.trim()]}
        read={(cursor) => read(cursor)}
        icon={ScrollText}
        none={t('audit.none')}
        noneHint={Object.keys(filters).length > 0 ? t('ui.noneMatch') : t('audit.noneHint')}
        head={
          <>
            <Th>{t('audit.when')}</Th>
            <Th>{t('audit.action')}</Th>
            <Th>{t('audit.about')}</Th>
            <Th className="max-sm:hidden">{t('audit.who')}</Th>
            <Th className="max-sm:hidden">{t('audit.detail')}</Th>
            <Th className="max-xl:hidden">{t('audit.hash')}</Th>
          </>
        }
        row={(e) => (
          <Tr key={e.id}>
            <Td className="text-ink-2">
              <Ago at={e.timestamp} />
            </Td>
            <Td>
              <button
                type="button"
                onClick={() => setShown(e)}
                className="text-left text-accent-strong hover:underline"
              >
                {nameOfAction(e.action)}
              </button>
              <div className="max-w-40 text-xs text-ink-2 whitespace-normal wrap-anywhere sm:hidden">
                <div>{e.actor}</div>
                <div className="text-ink-3">{say(e.detail)}</div>
              </div>
            </Td>
            <Td>
              {/task/.test(e.entity_type) ? (
                <Link
                  to="/tasks/$taskId"
                  params={{ taskId: e.entity_id }}
                  className="text-accent-strong hover:underline"
                >
                  <Id id={e.entity_id} />
                </Link>
              ) : (
                <span className="block max-w-48 truncate text-ink-2 max-sm:max-w-24" title={e.entity_id}>
                  {shortId(e.entity_id)}
                </span>
              )}
            </Td>
            <Td className="max-w-48 truncate max-sm:hidden">{e.actor}</Td>
            <Td wrap className="min-w-64 text-ink-2 max-sm:hidden">
              {say(e.detail)}
            </Td>
            <Td className="font-mono text-xs text-ink-3 max-xl:hidden">{e.hash.slice(0, 12) || '–'}</Td>
          </Tr>
        )}
      />
      {shown && <Entry entry={shown} onClose={() => setShown(undefined)} />}
    </Page>
  )
}

/** Comma-separated values. A cell that a spreadsheet would take for a formula is made plain. */
export function csv(entries: AuditEntry[]): string {
  const cell = (value: string) => {
    const plain = /^[=+\-@\t\r\n＝＋－＠]/.test(value) ? `'${value}` : value
    return `"${plain.replaceAll('"', '""')}"`
  }
  const lines = entries.map((e) =>
    [
      new Date(e.timestamp).toISOString(),
      e.action,
      e.entity_type,
      e.entity_id,
      e.actor,
      e.detail,
      String(e.seq),
      e.hash,
      e.key_id,
      e.address,
    ]
      .map(cell)
      .join(','),
  )
  return ['timestamp,action,entity_type,entity_id,actor,detail,seq,hash,key_id,address', ...lines].join('\r\n')
}
