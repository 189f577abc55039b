import { useInfiniteQuery, useQueries, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { MessageSquarePlus, MessagesSquare } from 'lucide-react'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, page, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { isFinal } from '@/features/task/events'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { TaskBadge } from '@/ui/badge'
import { Button, buttonClass } from '@/ui/button'
import { Card, Fact, Facts } from '@/ui/card'
import { Ago, CopyButton, Id } from '@/ui/facts'
import { JsonTree } from '@/ui/json-tree'
import { Page } from '@/ui/page'
import { Prose } from '@/ui/prose'
import { Empty, Loaded, Skeleton } from '@/ui/states'

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
      beside={<CopyButton text={contextId} label={t('contexts.copyName')} />}
      lead={t('contexts.lead')}
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
            <About id={contextId} />
            <Turns tasks={tasks} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

/** The conversation as a whole: who goes on with it, its session, what it used. */
function About({ id }: { id: string }) {
  const { t } = useTranslation()
  const format = useFormat()
  const { data: c, isPending } = useQuery({
    queryKey: [...keys.contexts, id, 'about'],
    queryFn: () => data(api.GET('/api/runtime/contexts/{id}', { params: { path: { id } } })),
    retry: false,
  })
  if (!c) return isPending ? <Skeleton className="mb-4 h-24" /> : null
  return (
    <Card className="mb-4 px-4 py-3">
      <Facts className="sm:grid-cols-[minmax(6.5rem,auto)_1fr_minmax(6.5rem,auto)_1fr]">
        <Fact name={t('contexts.tasks')}>{format.number(c.tasks)}</Fact>
        <Fact name={t('contexts.worker')}>
          {c.worker_id ? (
            <Link to="/tasks" search={{ worker_id: c.worker_id }} className="text-accent-strong hover:underline">
              {c.worker_id}
            </Link>
          ) : (
            '–'
          )}
        </Fact>
        <Fact name={t('contexts.session')}>
          {c.session_id ? (
            <span className="inline-flex items-center">
              <Id id={c.session_id} />
              <CopyButton text={c.session_id} label={t('contexts.copySession')} className="-my-1" />
            </span>
          ) : (
            '–'
          )}
        </Fact>
        <Fact name={t('contexts.transcript')}>{c.size ? format.bytes(c.size) : '–'}</Fact>
        <Fact name={t('contexts.tokens')}>{c.tokens ? format.number(c.tokens) : '–'}</Fact>
        <Fact name={t('contexts.spent')}>{c.cost_usd ? format.money(c.cost_usd) : '–'}</Fact>
      </Facts>
    </Card>
  )
}

function Turns({ tasks }: { tasks: Task[] }) {
  const { t } = useTranslation()
  const results = useQueries({
    queries: tasks.map((task) => ({
      queryKey: [...keys.task(task.id), 'results'],
      queryFn: () => data(api.GET('/api/runtime/llm-tasks/{id}/results', { params: { path: { id: task.id } } })),
      enabled: isFinal(task.status),
    })),
  })
  return (
    <ol className="space-y-4">
      {tasks.map((task, i) => {
        const result = results[i]?.data?.[0]
        return (
          <li key={task.id}>
            <Card className="overflow-hidden">
              <header className="flex items-center gap-3 border-b bg-sunken/60 px-4 py-2 text-xs text-ink-3">
                <TaskBadge status={task.status} />
                <span className="min-w-0 truncate">{task.agent_slug}</span>
                <span className="min-w-0 truncate max-sm:hidden">{task.worker_id}</span>
                <span className="ml-auto shrink-0">
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
                {result?.output && <Output text={result.output} json={task.desired_format === 'json'} />}
                {result?.error_message && (
                  <p className="text-bad wrap-anywhere">{say(result.error_message.slice(0, 2000))}</p>
                )}
              </div>
            </Card>
          </li>
        )
      })}
    </ol>
  )
}

/** What a turn came to: its beginning where it is long, the task's page has all of it. */
function Output({ text, json }: { text: string; json: boolean }) {
  const tree = useMemo(() => {
    try {
      return json && text.length < 100_000 ? (JSON.parse(text) as unknown) : undefined
    } catch {
      return undefined
    }
  }, [text, json])
  return tree === undefined ? <Prose text={text.slice(0, 20_000)} /> : <JsonTree value={tree} />
}
