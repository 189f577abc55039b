import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useRouterState, useSearch } from '@tanstack/react-router'
import { ChevronRight, CircleCheck, TriangleAlert } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError, type Task, type Worker } from '@/api/client'
import { keys, task as taskQuery, workers as workersQuery } from '@/api/queries'
import { recentTasks } from '@/api/recent'
import { useReadsOnly } from '@/api/session'
import { say } from '@/i18n/said'
import { cn } from '@/lib/cn'
import { Button } from '@/ui/button'
import { Card } from '@/ui/card'
import { Kbd } from '@/ui/facts'
import { Checkbox, Field, Input, Select, Textarea } from '@/ui/field'
import { Page } from '@/ui/page'
import { Failure, Loaded } from '@/ui/states'
import { AttachButton, Attaching, overClass, useAttach } from './attach'
import { createTask, type Draft, draftOf, emptyDraft, list } from './draft'
import { SoFar } from './so-far'

export default function NewTask() {
  const { t } = useTranslation()
  const { from, context_id, agent_slug } = useSearch({ from: '/tasks/new' })
  const { prompt = '', files } = useRouterState({ select: (s) => s.location.state })
  const source = useQuery({ ...taskQuery(from ?? ''), enabled: from !== undefined })
  return (
    <Page
      title={t('newTask.title')}
      narrow
      lead={from && source.data ? t('newTask.from', { id: from.slice(-8) }) : undefined}
    >
      {from ? (
        <Loaded query={source}>{(task) => task && <Form key={task.id} first={draftOf(task)} />}</Loaded>
      ) : (
        <div className={context_id && 'grid items-start gap-6 *:min-w-0 xl:grid-cols-[minmax(0,1fr)_26rem]'}>
          {context_id && <SoFar contextId={context_id} />}
          <Form
            key={`${context_id} ${agent_slug}`}
            files={files}
            first={{ ...emptyDraft(), prompt, contextId: context_id ?? '', agent: agent_slug ?? 'assistant' }}
          />
        </div>
      )}
    </Page>
  )
}

function Form({ first, files }: { first: Draft; files?: File[] | undefined }) {
  const { t } = useTranslation()
  const readsOnly = useReadsOnly()
  const navigate = useNavigate()
  const client = useQueryClient()
  const [draft, setDraft] = useState(first)
  const attach = useAttach(files)
  const recent = useQuery(recentTasks)
  const create = useMutation({
    mutationFn: () => createTask(draft, attach.files),
    onSuccess: (task) => {
      client.setQueryData<Task>(keys.task(task.id), (now) => now ?? task)
      void navigate({ to: '/tasks/$taskId', params: { taskId: task.id } })
    },
  })
  const set = <K extends keyof Draft>(name: K, value: Draft[K]) => setDraft((d) => ({ ...d, [name]: value }))
  const problems = new Map(
    create.error instanceof ApiError ? create.error.details.map((d) => [d.field, say(d.message)]) : [],
  )
  const send = (event?: FormEvent) => {
    event?.preventDefault()
    if (!create.isPending && !readsOnly) create.mutate()
  }
  const tasks = recent.data?.items ?? []
  const fleet = useQuery(workersQuery)
  const known = unique((fleet.data ?? []).filter((w) => w.status === 'online').flatMap((w) => w.agents)).sort()
  const agentHint = (names: string[], name: string) =>
    !fleet.data
      ? ''
      : names.length === 0
        ? t('newTask.agentHint')
        : names.includes(name.trim())
          ? t('newTask.agentKnown', {
              workers: fleet.data
                ?.filter((w) => w.agents.includes(name.trim()))
                .map((w) => w.id)
                .join(', '),
            })
          : t('newTask.agentsKnown', { names: names.slice(0, 6).join(', ') })
  return (
    <form
      onSubmit={send}
      onKeyDown={(e) => {
        if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) send()
      }}
      {...attach.target}
      className={cn('space-y-5 rounded-card', overClass)}
    >
      <Card className="space-y-5 p-4 sm:p-5">
        {tasks.length > 0 && <Templates tasks={tasks} onPick={(task) => setDraft(draftOf(task))} />}
        <Field label={t('newTask.prompt')} error={problems.get('prompt')}>
          {(control) => (
            <Textarea
              {...control}
              autoFocus
              required
              rows={8}
              value={draft.prompt}
              onChange={(e) => set('prompt', e.target.value)}
              placeholder={t('newTask.promptHint')}
            />
          )}
        </Field>
        {attach.allowed && (
          <div className="space-y-3">
            <AttachButton attach={attach} text />
            <Attaching attach={attach} />
          </div>
        )}
        <div className="grid gap-5 sm:grid-cols-2">
          <Suggested
            label={t('newTask.agent')}
            hint={agentHint(known, draft.agent)}
            error={problems.get('agent_slug')}
            value={draft.agent}
            onChange={(v) => set('agent', v)}
            options={unique([...known, ...tasks.map((x) => x.agent_slug)])}
            required
          />
          <Suggested
            label={t('newTask.context')}
            hint={
              draft.contextId && tasks.some((x) => x.context_id === draft.contextId)
                ? t('newTask.contextKnown')
                : t('newTask.contextHint')
            }
            error={problems.get('context_id')}
            value={draft.contextId}
            onChange={(v) => set('contextId', v)}
            options={unique(tasks.map((x) => x.context_id))}
            placeholder={t('newTask.contextNew')}
          />
        </div>
        <Takers labels={list(draft.labels)} />
      </Card>
      <details className="group rounded-card border bg-surface shadow-card" open={problems.size > 0 || undefined}>
        <summary className="flex cursor-pointer list-none items-center gap-2 rounded-card px-4 py-3 font-medium sm:px-5">
          <ChevronRight className="size-4 text-ink-3 transition-transform group-open:rotate-90" aria-hidden />
          {t('newTask.more')}
        </summary>
        <div className="grid gap-5 border-t p-4 sm:grid-cols-2 sm:p-5 lg:grid-cols-3">
          <Field
            label={t('newTask.timeout')}
            error={problems.get('policy.timeout_sec')}
            hint={t('newTask.timeoutHint')}
          >
            {(c) => (
              <Input
                {...c}
                type="number"
                min={1}
                max={86400}
                value={draft.timeout}
                onChange={(e) => set('timeout', e.target.value)}
              />
            )}
          </Field>
          <Field label={t('newTask.budget')} error={problems.get('policy.budget')} hint={t('newTask.budgetHint')}>
            {(c) => (
              <Input
                {...c}
                type="number"
                min={0}
                value={draft.budget}
                onChange={(e) => set('budget', e.target.value)}
              />
            )}
          </Field>
          <Field label={t('newTask.attempts')} error={problems.get('max_attempts')} hint={t('newTask.attemptsHint')}>
            {(c) => (
              <Input
                {...c}
                type="number"
                min={1}
                max={10}
                value={draft.attempts}
                onChange={(e) => set('attempts', e.target.value)}
              />
            )}
          </Field>
          <Field label={t('newTask.format')} error={problems.get('desired_format')}>
            {(c) => (
              <Select
                {...c}
                value={draft.format}
                onChange={(e) => set('format', e.target.value as Draft['format'])}
                className="w-full"
              >
                <option value="text">{t('newTask.text')}</option>
                <option value="json">{'JSON'}</option>
              </Select>
            )}
          </Field>
          <Field label={t('newTask.priority')} error={problems.get('priority')} hint={t('newTask.priorityHint')}>
            {(c) => (
              <Input {...c} type="number" value={draft.priority} onChange={(e) => set('priority', e.target.value)} />
            )}
          </Field>
          <Field label={t('newTask.runAt')} error={problems.get('run_at')} hint={t('newTask.runAtHint')}>
            {(c) => (
              <Input {...c} type="datetime-local" value={draft.runAt} onChange={(e) => set('runAt', e.target.value)} />
            )}
          </Field>
          <Field
            label={t('newTask.labels')}
            error={problems.get('labels')}
            hint={t('newTask.labelsHint')}
            className="lg:col-span-1"
          >
            {(c) => <Input {...c} value={draft.labels} onChange={(e) => set('labels', e.target.value)} />}
          </Field>
          <Field
            label={t('newTask.hints')}
            error={problems.get('context_hints')}
            hint={t('newTask.hintsHint')}
            className="sm:col-span-2"
          >
            {(c) => <Input {...c} value={draft.hints} onChange={(e) => set('hints', e.target.value)} />}
          </Field>
          <Field
            label={t('newTask.artifacts')}
            error={problems.get('policy.artifacts')}
            hint={t('newTask.artifactsHint')}
            className="sm:col-span-2 lg:col-span-3"
          >
            {(c) => <Input {...c} value={draft.artifacts} onChange={(e) => set('artifacts', e.target.value)} />}
          </Field>
          <div className="flex flex-col gap-3 sm:col-span-2 lg:col-span-3">
            <Checkbox
              label={t('newTask.ordered')}
              checked={draft.ordered}
              onChange={(e) => set('ordered', e.target.checked)}
            />
            <Checkbox
              label={t('newTask.ownFolder')}
              checked={draft.ownFolder}
              onChange={(e) => set('ownFolder', e.target.checked)}
            />
          </div>
        </div>
      </details>
      {create.error && <Failure error={create.error} />}
      {readsOnly && (
        <p role="status" className="flex items-center gap-2 rounded-lg bg-warn-soft px-3 py-2 text-[13px] text-warn">
          <TriangleAlert className="size-4 shrink-0" aria-hidden />
          {t('newTask.readsOnly')}
        </p>
      )}
      <div className="flex items-center gap-3">
        <Button type="submit" look="primary" busy={create.isPending} disabled={readsOnly}>
          {t('newTask.submit')}
        </Button>
        <span className="hidden items-center gap-1 text-xs text-ink-3 sm:flex">
          <Kbd>{'Ctrl'}</Kbd>
          <Kbd>{'Enter'}</Kbd>
        </span>
      </div>
    </form>
  )
}

const unique = (values: string[]) => [...new Set(values)].slice(0, 30)

/** A field with what was used before to choose from. */
function Suggested({
  label,
  hint,
  error,
  value,
  onChange,
  options,
  ...rest
}: {
  label: string
  hint: string
  error: string | undefined
  value: string
  onChange: (value: string) => void
  options: string[]
  required?: boolean
  placeholder?: string
}) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(c) => (
        <>
          <Input {...c} {...rest} list={`${c.id}-list`} value={value} onChange={(e) => onChange(e.target.value)} />
          <datalist id={`${c.id}-list`}>
            {options.map((o) => (
              <option key={o} value={o} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  )
}

function Templates({ tasks, onPick }: { tasks: Task[]; onPick: (task: Task) => void }) {
  const { t } = useTranslation()
  const seen = new Set<string>()
  const distinct = tasks.filter((task) => !seen.has(task.prompt) && seen.add(task.prompt)).slice(0, 20)
  return (
    <Field label={t('newTask.template')}>
      {(c) => (
        <Select
          {...c}
          className="w-full"
          value=""
          onChange={(e) => {
            const task = tasks.find((x) => x.id === e.target.value)
            if (task) onPick(task)
          }}
        >
          <option value="">{t('newTask.noTemplate')}</option>
          {distinct.map((task) => (
            <option key={task.id} value={task.id}>
              {task.prompt.slice(0, 90)}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}

/** Workers that could take a task with these labels now. */
export const takers = (workers: Worker[], labels: string[]) =>
  workers.filter(
    (w) =>
      w.status === 'online' &&
      !w.draining &&
      w.capabilities.claude_cli &&
      labels.every((l) => w.capabilities.labels?.includes(l)),
  )

function Takers({ labels }: { labels: string[] }) {
  const { t } = useTranslation()
  const { data } = useQuery(workersQuery)
  if (!data) return null
  const able = takers(data, labels)
  const free = able.filter((w) => w.active_leases < w.capabilities.max_concurrency).length
  if (able.length === 0) {
    return (
      <p role="status" className="flex items-center gap-2 rounded-lg bg-warn-soft px-3 py-2 text-[13px] text-warn">
        <TriangleAlert className="size-4 shrink-0" aria-hidden />
        <span>
          {labels.length ? t('newTask.noTakersLabels') : t('newTask.noTakers')}{' '}
          <Link to="/workers" className="font-medium underline underline-offset-2">
            {data.length === 0 ? t('workers.add') : t('newTask.seeWorkers')}
          </Link>
        </span>
      </p>
    )
  }
  return (
    <p role="status" className="flex items-center gap-2 text-[13px] text-ink-2">
      <CircleCheck className="size-4 shrink-0 text-good" aria-hidden />
      {t('newTask.takers', { count: able.length })} {free === 0 && t('newTask.allBusy')}
    </p>
  )
}
