import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Brain } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data } from '@/api/client'
import { keys } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { Button, buttonClass } from '@/ui/button'
import { Card, Panel } from '@/ui/card'
import { Confirm } from '@/ui/dialog'
import { Ago } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Empty, Failure, Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { toast } from '@/ui/toast'

// Membridge's own shapes, which the proxy passes on. Its times are in seconds.
interface Project {
  name: string
  canonical_id: string
  last_seen: number | null
  nodes_count: number
  source: 'manual' | 'heartbeat'
}
interface MemoryNode {
  node_id: string
  role: string
  obs_count: number
  db_sha: string
  last_seen: number | null
  ip_addrs: string[]
}
interface Leadership {
  preferred_primary?: string | null
  epoch?: number
  expires_at?: number | null
  lease_expires_at?: number | null
}

export default function Membridge() {
  const { t } = useTranslation()
  const projects = useQuery({
    queryKey: [...keys.membridge, 'projects'],
    queryFn: async () => (await data(api.GET('/api/membridge/projects'))) as Project[],
    refetchInterval: 10_000,
    retry: false,
  })
  const [chosen, setChosen] = useState('')
  const list = projects.data ?? []
  const project = list.find((p) => p.canonical_id === chosen) ?? list[0]
  if (projects.error && !projects.data) {
    return (
      <Page title={t('membridge.title')} lead={t('membridge.lead')}>
        <Failure error={projects.error} retry={() => void projects.refetch()} />
        <Link to="/settings" className={`${buttonClass()} mt-4`}>
          {t('membridge.settings')}
        </Link>
      </Page>
    )
  }
  return (
    <Page title={t('membridge.title')} lead={t('membridge.lead')}>
      <Loaded
        query={projects}
        empty={{
          when: (found) => found.length === 0,
          show: (
            <Card>
              <Empty icon={Brain} title={t('membridge.none')}>
                {t('membridge.noneHint')}
              </Empty>
            </Card>
          ),
        }}
      >
        {(found) => (
          <div className="grid gap-5 lg:grid-cols-[20rem_minmax(0,1fr)]">
            <Panel title={t('membridge.projects')} flush>
              <ul className="divide-y">
                {found.map((p) => (
                  <li key={p.canonical_id}>
                    <button
                      type="button"
                      aria-pressed={p === project}
                      onClick={() => setChosen(p.canonical_id)}
                      className="flex w-full items-center gap-2 px-4 py-2.5 text-left hover:bg-sunken/70 aria-pressed:bg-accent-soft"
                    >
                      <span className="min-w-0 flex-1">
                        <span className="block truncate font-medium">{p.name}</span>
                        <span className="block text-xs text-ink-3">
                          {t('membridge.nodes', { count: p.nodes_count })}
                        </span>
                      </span>
                      <Badge tone={p.source === 'manual' ? 'accent' : 'info'}>{t(`membridge.${p.source}`)}</Badge>
                    </button>
                  </li>
                ))}
              </ul>
            </Panel>
            {project && <ProjectNodes key={project.canonical_id} project={project} />}
          </div>
        )}
      </Loaded>
    </Page>
  )
}

function ProjectNodes({ project }: { project: Project }) {
  const { t } = useTranslation()
  const format = useFormat()
  const [promoting, setPromoting] = useState('')
  const params = { params: { path: { cid: project.canonical_id } } }
  const nodes = useQuery({
    queryKey: [...keys.membridge, project.canonical_id, 'nodes'],
    queryFn: async () => (await data(api.GET('/api/membridge/projects/{cid}/nodes', params))) as MemoryNode[],
    refetchInterval: 10_000,
  })
  const leadership = useQuery({
    queryKey: [...keys.membridge, project.canonical_id, 'leadership'],
    queryFn: async () => (await data(api.GET('/api/membridge/projects/{cid}/leadership', params))) as Leadership,
    refetchInterval: 10_000,
  })
  const lead = leadership.data
  const expires = lead?.expires_at ?? lead?.lease_expires_at ?? null
  const promote = async () => {
    await api.POST('/api/membridge/projects/{cid}/leadership/select', {
      ...params,
      body: { primary_node_id: promoting },
    })
    toast(t('membridge.promoted', { node: promoting }))
    await Promise.all([nodes.refetch(), leadership.refetch()])
  }
  return (
    <Panel
      title={project.name}
      flush
      actions={
        lead?.preferred_primary && (
          <span className="flex items-center gap-2 text-xs text-ink-2">
            {t('membridge.leader', { node: lead.preferred_primary })}
            {lead.epoch !== undefined && <span className="text-ink-3">{t('membridge.epoch', { n: lead.epoch })}</span>}
            {expires !== null &&
              (expires * 1000 < Date.now() ? (
                <Badge tone="bad">{t('membridge.expired')}</Badge>
              ) : (
                <Ago at={expires * 1000} />
              ))}
          </span>
        )
      }
    >
      <Loaded
        query={nodes}
        empty={{ when: (list) => list.length === 0, show: <Empty icon={Brain} title={t('membridge.noNodes')} /> }}
      >
        {(list) => (
          <Table label={project.name}>
            <thead>
              <tr>
                <Th>{t('membridge.node')}</Th>
                <Th>{t('membridge.role')}</Th>
                <Th className="text-right">{t('membridge.observations')}</Th>
                <Th>{t('membridge.database')}</Th>
                <Th>{t('membridge.seen')}</Th>
                <Th>
                  <span className="sr-only">{t('membridge.promote')}</span>
                </Th>
              </tr>
            </thead>
            <tbody>
              {list.map((node) => (
                <Tr key={node.node_id}>
                  <Td className="font-medium">{node.node_id}</Td>
                  <Td>
                    <Badge tone={node.role === 'primary' ? 'good' : 'idle'}>{node.role}</Badge>
                  </Td>
                  <Td className="tabular text-right">{format.number(node.obs_count)}</Td>
                  <Td className="font-mono text-xs text-ink-2">{node.db_sha.slice(0, 12) || '–'}</Td>
                  <Td className="text-ink-2">{node.last_seen === null ? '–' : <Ago at={node.last_seen * 1000} />}</Td>
                  <Td className="text-right">
                    {node.role !== 'primary' && (
                      <Button size="sm" onClick={() => setPromoting(node.node_id)}>
                        {t('membridge.promote')}
                      </Button>
                    )}
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
        run={promote}
      />
    </Panel>
  )
}
