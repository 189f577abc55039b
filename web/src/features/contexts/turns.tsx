import { useQueries } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { isFinal } from '@/features/task/events'
import { Row } from '@/features/task/rows'
import { useStream } from '@/features/task/use-stream'
import { say } from '@/i18n/said'
import { TaskBadge } from '@/ui/badge'
import { Card } from '@/ui/card'
import { Ago } from '@/ui/facts'
import { JsonTree } from '@/ui/json-tree'
import { Prose } from '@/ui/prose'

/** Tasks of a conversation in their order: what was asked and what was answered. live: those that run are followed. */
export function Turns({ tasks, live }: { tasks: Task[]; live?: boolean }) {
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
          <li key={task.id} id={`turn-${task.id}`}>
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
                {live && (task.status === 'leased' || task.status === 'running') && <Running task={task} />}
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

/** What a turn that runs has said or done last. */
function Running({ task }: { task: Task }) {
  const { t } = useTranslation()
  const { items } = useStream(task.id, false).conversation
  const last = items.findLast((item) => item.kind === 'text' || item.kind === 'tool')
  return (
    <>
      {last && <Row item={last} over={false} />}
      <p role="status" className="flex items-center gap-2 text-xs text-ink-3">
        <span aria-hidden className="breathe size-2 rounded-full bg-info" />
        {t('task.stream.live')}
      </p>
    </>
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
