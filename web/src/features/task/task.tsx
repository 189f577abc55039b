import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { Tabs } from 'radix-ui'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Task } from '@/api/client'
import { keys, task as taskQuery } from '@/api/queries'
import { isView } from '@/app/task-views'
import { TaskBadge } from '@/ui/badge'
import { CopyButton, Id } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Failure, Skeleton } from '@/ui/states'
import { Actions } from './actions'
import { Asked } from './asked'
import { Composer } from './composer'
import { ConversationView } from './conversation-view'
import { isFinal } from './events'
import { Notes, WhyItFailed } from './notes'
import { Records } from './records'
import { ResultView } from './result'
import { Side } from './side'
import { Timeline } from './timeline'
import { useStream } from './use-stream'
import { Asking, Waiting, WorkerOffline } from './waiting'

export default function TaskPage() {
  const { taskId } = useParams({ strict: false }) as { taskId: string }
  const { t } = useTranslation()
  const query = useQuery(taskQuery(taskId))
  if (query.data) return <Found key={taskId} task={query.data} />
  return (
    <Page title={t('task.title')}>
      {query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : <Skeleton className="h-64" />}
    </Page>
  )
}

const tab =
  'h-9 shrink-0 border-b-2 border-transparent px-1 text-[13px] whitespace-nowrap max-sm:px-0 max-sm:text-xs font-medium text-ink-2 hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink'

function Found({ task }: { task: Task }) {
  const { t } = useTranslation()
  const over = isFinal(task.status)
  const stream = useStream(task.id, over)
  const { view = 'run' } = useSearch({ from: '/tasks/$taskId' })
  const navigate = useNavigate()
  const show = (next: string) =>
    void navigate({
      to: '/tasks/$taskId',
      params: { taskId: task.id },
      search: isView(next) && next !== 'run' ? { view: next } : {},
      replace: true,
      resetScroll: false,
    })
  const name = useMemo(() => firstLine(task.prompt), [task.prompt])
  const results = useQuery({
    queryKey: [...keys.task(task.id), 'results'],
    queryFn: () => data(api.GET('/api/runtime/llm-tasks/{id}/results', { params: { path: { id: task.id } } })),
    enabled: over || task.attempts > 1,
  })
  const result = results.data?.[0]
  return (
    <Page
      title={<span className="line-clamp-2 wrap-anywhere">{name}</span>}
      tabTitle={name.slice(0, 60)}
      lead={
        <span className="flex flex-wrap items-center gap-x-3 gap-y-1.5 text-[13px]">
          <TaskBadge status={task.status} />
          <span className="min-w-0 wrap-anywhere">{task.agent_slug}</span>
          <span className="inline-flex items-center">
            <Id id={task.id} />
            <CopyButton text={task.id} label={t('task.copyId')} />
          </span>
        </span>
      }
      actions={<Actions task={task} />}
    >
      <div className="grid gap-6 xl:grid-cols-[minmax(0,1fr)_20rem]">
        <div className="min-w-0">
          {task.status === 'queued' && (
            <Waiting task={task} steps={stream.conversation.items.filter((i) => i.kind === 'step')} />
          )}
          {(task.status === 'leased' || task.status === 'running') && task.worker_id && (
            <WorkerOffline task={task} workerId={task.worker_id} />
          )}
          {!over && <Asking task={task} />}
          {task.status === 'completed' && result && <Notes task={task} result={result} />}
          {(task.status === 'failed' || task.status === 'dead') && (
            <WhyItFailed task={task} message={result?.error_message} />
          )}
          <Tabs.Root value={view} onValueChange={show}>
            <Tabs.List aria-label={t('task.views')} className="mb-4 flex gap-5 overflow-x-auto border-b max-sm:gap-3">
              <Tabs.Trigger value="run" className={tab}>
                {t('task.tab.run')}
              </Tabs.Trigger>
              <Tabs.Trigger value="result" className={tab}>
                {t('task.tab.result')}
              </Tabs.Trigger>
              <Tabs.Trigger value="timeline" className={tab}>
                {t('task.tab.timeline')}
              </Tabs.Trigger>
              <Tabs.Trigger value="records" className={tab}>
                {t('task.tab.records')}
              </Tabs.Trigger>
            </Tabs.List>
            <Tabs.Content value="run" tabIndex={-1}>
              <ConversationView task={task} stream={stream} over={over} />
            </Tabs.Content>
            <Tabs.Content value="result" tabIndex={-1}>
              <Asked task={task} />
              <ResultView query={results} task={task} over={over} />
            </Tabs.Content>
            <Tabs.Content value="timeline" tabIndex={-1}>
              <Timeline task={task} conversation={stream.conversation} />
            </Tabs.Content>
            <Tabs.Content value="records" tabIndex={-1}>
              <Records taskId={task.id} />
            </Tabs.Content>
          </Tabs.Root>
          <Composer
            contextId={task.context_id}
            onSent={(next) => void navigate({ to: '/tasks/$taskId', params: { taskId: next.id } })}
          />
        </div>
        <Side task={task} conversation={stream.conversation} results={results.data} />
      </div>
    </Page>
  )
}

const firstLine = (text: string) => (text.split('\n').find((line) => line.trim() !== '') ?? text).trim().slice(0, 300)
