import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Brain, Unplug } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError } from '@/api/client'
import { health } from '@/api/queries'
import { Badge } from '@/ui/badge'
import { buttonClass } from '@/ui/button'
import { Card, Panel } from '@/ui/card'
import { Page } from '@/ui/page'
import { Empty, Failure, Loaded } from '@/ui/states'
import { projects } from './api'
import { Jobs } from './jobs'
import { Nodes } from './nodes'

export default function Membridge() {
  const { t } = useTranslation()
  const query = useQuery(projects)
  const away = useQuery(health).data?.membridge.connected === false && !query.data
  const [chosen, setChosen] = useState('')
  const list = query.data ?? []
  const project = list.find((p) => p.canonical_id === chosen) ?? list[0]
  // That the server itself fails says nothing of membridge.
  const ours = query.error instanceof ApiError && query.error.status !== 502
  if (ours && !query.data) {
    return (
      <Page title={t('membridge.title')} lead={t('membridge.lead')}>
        <Failure error={query.error} retry={() => void query.refetch()} />
      </Page>
    )
  }
  if (away || (query.error && !query.data)) {
    return (
      <Page title={t('membridge.title')} lead={t('membridge.lead')}>
        <Card>
          <Empty
            icon={Unplug}
            title={t('membridge.notConnected')}
            action={
              <Link to="/settings" className={buttonClass('primary')}>
                {t('membridge.settings')}
              </Link>
            }
          >
            {t('membridge.notConnectedHint')}
          </Empty>
        </Card>
        {query.error && <Failure error={query.error} retry={() => void query.refetch()} className="mt-4" />}
      </Page>
    )
  }
  return (
    <Page title={t('membridge.title')} lead={t('membridge.lead')}>
      <Loaded
        query={query}
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
          <div className="grid gap-5 items-start lg:grid-cols-[20rem_minmax(0,1fr)]">
            <Panel title={t('membridge.projects')} flush>
              <ul className="divide-y overflow-hidden rounded-b-card">
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
            {project && (
              <div key={project.canonical_id} className="min-w-0 space-y-5">
                <Nodes project={project} />
                <Jobs project={project} />
              </div>
            )}
          </div>
        )}
      </Loaded>
    </Page>
  )
}
