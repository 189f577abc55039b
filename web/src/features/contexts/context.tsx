import { useInfiniteQuery, useQueries } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { MessageSquarePlus, MessagesSquare } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { api, data, page, type Result, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { isFinal } from '@/features/task/events'
import { useFormat } from '@/lib/format'
import { TaskBadge } from '@/ui/badge'
import { Button, buttonClass } from '@/ui/button'
import { Card } from '@/ui/card'
import { Ago, CopyButton } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Prose } from '@/ui/prose'
import { Empty, Loaded } from '@/ui/states'

const first = 20

/** One conversation: what was asked and answered, in order. */
export default function Context() {
  const { contextId } = useParams({ strict: false }) as { contextId: string }
  const { t } = useTranslation()
  const query = useInfiniteQuery({
    queryKey: [...keys.contexts, contextId],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      page<Task>(
        api.GET('/api/runtime/llm-tasks', {
          params: { query: { context_id: contextId, limit: first, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    getNextPageParam: (last) => last.next,
  })
  const tasks = query.data?.pages.flatMap((p) => p.items).reverse() ?? []
  const latest = tasks.at(-1)
  return (
    <Page
      narrow
      title={<span className="wrap-anywhere">{contextId}</span>}
      tabTitle={contextId}
      lead={
        <span className="flex items-center gap-1">
          {t('contexts.lead')} <CopyButton text={contextId} />
        </span>
      }
      actions={
        <Link
          to="/tasks/new"
          search={{ context_id: contextId, ...(latest ? { agent_slug: latest.agent_slug } : {}) }}
          className={buttonClass('primary')}
        >
          <MessageSquarePlus className="size-4" aria-hidden />
          {t('task.continue')}
        </Link>
      }
    >
      <Loaded
        query={query}
        empty={{ when: () => tasks.length === 0, show: <Empty icon={MessagesSquare} title={t('contexts.noTasks')} /> }}
      >
        {() => (
          <>
            {query.hasNextPage && (
              <Button
                size="sm"
                className="mb-4"
                busy={query.isFetchingNextPage}
                onClick={() => void query.fetchNextPage()}
              >
                {t('contexts.earlier')}
              </Button>
            )}
            <Turns tasks={tasks} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Turns({ tasks }: { tasks: Task[] }) {
  const { t } = useTranslation()
  const format = useFormat()
  const results = useQueries({
    queries: tasks.map((task) => ({
      queryKey: [...keys.task(task.id), 'results'],
      queryFn: () => data(api.GET('/api/runtime/llm-tasks/{id}/results', { params: { path: { id: task.id } } })),
      enabled: isFinal(task.status),
    })),
  })
  const cost = results.reduce(
    (sum, r) => sum + (r.data?.reduce((n: number, x: Result) => n + (x.metrics.cost_usd ?? 0), 0) ?? 0),
    0,
  )
  return (
    <>
      {cost > 0 && (
        <p className="tabular mb-3 text-xs text-ink-3">{t('contexts.cost', { cost: format.money(cost) })}</p>
      )}
      <ol className="space-y-4">
        {tasks.map((task, i) => {
          const result = results[i]?.data?.[0]
          return (
            <li key={task.id}>
              <Card className="overflow-hidden">
                <header className="flex items-center gap-3 border-b bg-sunken/60 px-4 py-2 text-xs text-ink-3">
                  <TaskBadge status={task.status} />
                  <span>{task.agent_slug}</span>
                  <span className="max-sm:hidden">{task.worker_id}</span>
                  <span className="ml-auto">
                    <Ago at={task.created_at} />
                  </span>
                  <Link
                    to="/tasks/$taskId"
                    params={{ taskId: task.id }}
                    className="font-medium text-accent-strong hover:underline"
                  >
                    {t('contexts.open')}
                  </Link>
                </header>
                <div className="space-y-3 p-4">
                  <div className="rounded-lg bg-accent-soft/60 px-3 py-2">
                    <Prose text={task.prompt.slice(0, 8000)} />
                  </div>
                  {result?.output && <Prose text={result.output.slice(0, 20_000)} />}
                  {result?.error_message && (
                    <p className="text-bad wrap-anywhere">{result.error_message.slice(0, 2000)}</p>
                  )}
                </div>
              </Card>
            </li>
          )
        })}
      </ol>
    </>
  )
}
