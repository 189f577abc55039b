import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Confirm } from '@/ui/dialog'
import { Field, Select } from '@/ui/field'
import { Failure } from '@/ui/states'
import { type Agent, agents, type Job, type Project, sync } from './api'

/** Asks which agent is to push or pull a project's memory, and says what that does. */
export function Sync({
  kind,
  project,
  onOpenChange,
  onAsked,
  onFailed,
}: {
  kind: Job['kind']
  project: Project
  onOpenChange: () => void
  onAsked: (jobId: string) => void
  onFailed: () => void
}) {
  const { t } = useTranslation()
  const query = useQuery(agents)
  const [chosen, setChosen] = useState('')
  const list = [...(query.data ?? [])].sort((a, b) => Number(isThere(b)) - Number(isThere(a)))
  const agent = chosen || list[0]?.name || ''
  const run = async () => {
    try {
      onAsked(await sync(kind, project.canonical_id, agent))
    } catch (error) {
      onFailed() // the failed job is in the list
      throw error
    }
  }
  return (
    <Confirm
      open
      onOpenChange={onOpenChange}
      title={t(`membridge.sync.${kind}Title`, { project: project.name })}
      lead={t(`membridge.sync.${kind}Lead`)}
      action={t(`membridge.sync.${kind}`)}
      disabled={agent === ''}
      run={run}
    >
      <div className="mb-4">
        {query.error && !query.data ? (
          <Failure error={query.error} retry={() => void query.refetch()} />
        ) : query.data && list.length === 0 ? (
          <p className="rounded-lg bg-warn-soft px-3 py-2 text-[13px]">{t('membridge.sync.nobody')}</p>
        ) : (
          <Field label={t('membridge.sync.agent')}>
            {(control) => (
              <Select {...control} className="w-full" value={agent} onChange={(e) => setChosen(e.target.value)}>
                {list.map((a) => (
                  <option key={a.name} value={a.name}>
                    {isThere(a) ? a.name : t('membridge.sync.away', { name: a.name })}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        )}
      </div>
    </Confirm>
  )
}

const isThere = (agent: Agent) => agent.status === 'online' || agent.status === 'syncing'
