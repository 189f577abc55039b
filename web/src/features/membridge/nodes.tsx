import { useQuery } from '@tanstack/react-query'
import { Brain, TriangleAlert } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useFormat, useNow } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Panel } from '@/ui/card'
import { Confirm } from '@/ui/dialog'
import { Ago } from '@/ui/facts'
import { Empty, Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { toast } from '@/ui/toast'
import { type Leadership, leadership, nodes, type Project, promote } from './api'

/** The nodes of a project, which of them leads it, and the way to change that. */
export function Nodes({ project }: { project: Project }) {
  const { t } = useTranslation()
  const format = useFormat()
  const [promoting, setPromoting] = useState('')
  const list = useQuery(nodes(project.canonical_id))
  const leads = useQuery(leadership(project.canonical_id))
  const run = async () => {
    await promote(project.canonical_id, promoting, leads.data?.lease?.epoch)
    toast(t('membridge.promoted', { node: promoting }))
    await Promise.all([list.refetch(), leads.refetch()])
  }
  return (
    <Panel title={project.name} flush actions={leads.data && <Leader lead={leads.data} />}>
      {leads.data && <LeaderWarning lead={leads.data} />}
      <Loaded
        query={list}
        empty={{ when: (l) => l.length === 0, show: <Empty icon={Brain} title={t('membridge.noNodes')} /> }}
      >
        {(found) => (
          <Table label={project.name}>
            <thead>
              <tr>
                <Th>{t('membridge.node')}</Th>
                <Th>{t('membridge.role')}</Th>
                <Th className="text-right max-sm:hidden">{t('membridge.observations')}</Th>
                <Th className="max-sm:hidden">{t('membridge.database')}</Th>
                <Th className="max-sm:hidden">{t('membridge.seen')}</Th>
                <Th>
                  <span className="sr-only">{t('membridge.promote')}</span>
                </Th>
              </tr>
            </thead>
            <tbody>
              {found.map((node) => (
                <Tr key={node.node_id}>
                  <Td className="max-w-48 truncate font-medium">{node.node_id}</Td>
                  <Td>
                    <Badge tone={node.role === 'primary' ? 'good' : 'idle'}>{t(`membridge.roles.${node.role}`)}</Badge>
                  </Td>
                  <Td className="text-right max-sm:hidden">
                    {node.obs_count === null ? '–' : format.number(node.obs_count)}
                  </Td>
                  <Td className="font-mono text-xs text-ink-2 max-sm:hidden">{node.db_sha.slice(0, 12) || '–'}</Td>
                  <Td className="text-ink-2 max-sm:hidden">
                    {node.last_seen === null ? '–' : <Ago at={node.last_seen * 1000} />}
                  </Td>
                  <Td className="text-right">
                    <Button size="sm" disabled={node.role === 'primary'} onClick={() => setPromoting(node.node_id)}>
                      {t('membridge.promote')}
                    </Button>
                  </Td>
                </Tr>
              ))}
            </tbody>
          </Table>
        )}
      </Loaded>
      <Confirm
        open={promoting !== ''}
        onOpenChange={() => setPromoting('')}
        title={t('membridge.promoteTitle', { node: promoting })}
        lead={t('membridge.promoteLead')}
        action={t('membridge.promote')}
        run={run}
      />
    </Panel>
  )
}

function Leader({ lead }: { lead: Leadership }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const { lease } = lead
  const node = lead.preferred_primary ?? lead.last_primary
  if (!node) return null
  return (
    <span className="flex flex-wrap items-center justify-end gap-x-2 text-xs text-ink-2">
      <span className="font-medium">{t('membridge.leads', { node })}</span>
      {lease && <span className="text-ink-3">{t('membridge.epoch', { n: lease.epoch })}</span>}
      {over(lead, now) ? (
        <Badge tone="bad">{t('membridge.expired')}</Badge>
      ) : (
        lease && (
          <span className="text-ink-3">{t('membridge.until', { when: format.dateTime(lease.expires_at * 1000) })}</span>
        )
      )}
    </span>
  )
}

const over = (lead: Leadership, now: number) =>
  lead.expired === true || (lead.lease ? lead.lease.expires_at * 1000 <= now : false)

/** Nobody leads, or whoever did may no longer: says what to do. */
function LeaderWarning({ lead }: { lead: Leadership }) {
  const { t } = useTranslation()
  const now = useNow()
  const expired = over(lead, now)
  const node = lead.preferred_primary ?? lead.last_primary ?? ''
  if (node && !expired) return null
  return (
    <p className="flex items-center gap-2.5 border-b bg-warn-soft px-4 py-2 text-[13px]">
      <TriangleAlert className="size-4 shrink-0 text-warn" aria-hidden />
      {node ? t('membridge.expiredHint', { node }) : t('membridge.noLeader')}
    </p>
  )
}
