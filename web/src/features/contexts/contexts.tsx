import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { MessagesSquare } from 'lucide-react'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import { recentTasks } from '@/api/recent'
import { TaskBadge } from '@/ui/badge'
import { buttonClass } from '@/ui/button'
import { Card } from '@/ui/card'
import { Ago } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Empty, Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'

interface Context {
  id: string
  latest: Task
  tasks: number
  workers: string[]
}

/** The conversations of the newest tasks, the one that was used last first. */
export function contextsOf(tasks: Task[]): Context[] {
  const found = new Map<string, Context>()
  for (const task of tasks) {
    const context = found.get(task.context_id) ?? { id: task.context_id, latest: task, tasks: 0, workers: [] }
    context.tasks++
    if (task.worker_id && !context.workers.includes(task.worker_id)) context.workers.push(task.worker_id)
    found.set(task.context_id, context)
  }
  return [...found.values()]
}

export default function Contexts() {
  const { t } = useTranslation()
  const query = useQuery(recentTasks)
  const contexts = useMemo(() => contextsOf(query.data?.items ?? []), [query.data])
  return (
    <Page title={t('contexts.title')} lead={t('contexts.lead')}>
      <Card>
        <Loaded
          query={query}
          empty={{
            when: () => contexts.length === 0,
            show: (
              <Empty
                icon={MessagesSquare}
                title={t('contexts.none')}
                action={
                  <Link to="/tasks/new" className={buttonClass('primary')}>
                    {t('app.newTask')}
                  </Link>
                }
              >
                {t('contexts.noneHint')}
              </Empty>
            ),
          }}
        >
          {() => (
            <Table label={t('contexts.title')}>
              <thead>
                <tr>
                  <Th>{t('contexts.one')}</Th>
                  <Th>{t('contexts.latest')}</Th>
                  <Th className="text-right">{t('contexts.tasks')}</Th>
                  <Th>{t('contexts.worker')}</Th>
                  <Th className="text-right">{t('contexts.used')}</Th>
                </tr>
              </thead>
              <tbody>
                {contexts.map((c) => (
                  <Tr key={c.id}>
                    <Td className="max-w-56">
                      <Link
                        to="/contexts/$contextId"
                        params={{ contextId: c.id }}
                        className="block truncate font-medium hover:text-accent-strong"
                        title={c.id}
                      >
                        {c.id}
                      </Link>
                    </Td>
                    <Td className="max-w-md">
                      <span className="flex items-center gap-2">
                        <TaskBadge status={c.latest.status} />
                        <span className="truncate text-ink-2">{c.latest.prompt.slice(0, 160)}</span>
                      </span>
                    </Td>
                    <Td className="tabular text-right text-ink-2">{c.tasks}</Td>
                    <Td className="max-w-40 truncate text-ink-2">{c.workers.join(', ') || '–'}</Td>
                    <Td className="text-right text-ink-2">
                      <Ago at={c.latest.created_at} />
                    </Td>
                  </Tr>
                ))}
              </tbody>
            </Table>
          )}
        </Loaded>
      </Card>
      {query.data?.next && (
        <p className="mt-3 text-xs text-ink-3">{t('contexts.onlyRecent', { count: query.data.items.length })}</p>
      )}
    </Page>
  )
}
