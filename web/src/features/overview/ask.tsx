import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { ChevronRight, SendHorizontal } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import { keys, workers as workersQuery } from '@/api/queries'
import { recentTasks } from '@/api/recent'
import { useReadsOnly } from '@/api/session'
import { AttachButton, Attaching, overClass, useAttach } from '@/features/new-task/attach'
import { createTask, emptyDraft } from '@/features/new-task/draft'
import { cn } from '@/lib/cn'
import { Button } from '@/ui/button'
import { Card } from '@/ui/card'
import { Field, Input, Textarea } from '@/ui/field'
import { Failure } from '@/ui/states'

/** Creates a task from a sentence. Who does it and where it continues are one step away, everything else two. */
export function Ask() {
  const { t } = useTranslation()
  const client = useQueryClient()
  const navigate = useNavigate()
  const readsOnly = useReadsOnly()
  const tasks = useQuery(recentTasks).data?.items ?? []
  const fleet = useQuery(workersQuery).data ?? []
  const [draft, setDraft] = useState(emptyDraft)
  const [open, setOpen] = useState(false)
  const attach = useAttach()
  const create = useMutation({
    mutationFn: () => createTask(draft, attach.files),
    onSuccess: (task) => {
      client.setQueryData<Task>(keys.task(task.id), (now) => now ?? task)
      void navigate({ to: '/tasks/$taskId', params: { taskId: task.id } })
    },
  })
  if (readsOnly) return null
  const able = draft.prompt.trim() !== '' && draft.agent.trim() !== ''
  const send = (event?: FormEvent) => {
    event?.preventDefault()
    if (able && !create.isPending) create.mutate()
  }
  const choices = {
    agent: [...fleet.flatMap((w) => w.agents), ...tasks.map((task) => task.agent_slug)],
    contextId: tasks.map((task) => task.context_id),
  }
  const field = (name: keyof typeof choices, label: string, placeholder: string) => (
    <Field label={label}>
      {(control) => (
        <>
          <Input
            {...control}
            list={`${control.id}-list`}
            placeholder={placeholder}
            value={draft[name]}
            onChange={(e) => setDraft({ ...draft, [name]: e.target.value })}
          />
          <datalist id={`${control.id}-list`}>
            {[...new Set(choices[name])].slice(0, 30).map((choice) => (
              <option key={choice} value={choice} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  )
  return (
    <Card>
      <form aria-label={t('app.newTask')} onSubmit={send} {...attach.target} className={cn('rounded-card', overClass)}>
        <Textarea
          aria-label={t('newTask.prompt')}
          placeholder={t('newTask.promptHint')}
          rows={2}
          enterKeyHint="send"
          value={draft.prompt}
          onChange={(e) => setDraft({ ...draft, prompt: e.target.value })}
          onKeyDown={(e) => {
            // Enter also ends a word that is being composed.
            if (e.key === 'Enter' && !e.shiftKey && !e.nativeEvent.isComposing) send(e)
          }}
          className="field-sizing-content max-h-72 min-h-16 resize-none rounded-b-none border-transparent bg-transparent px-4 pt-3 text-[15px] hover:border-transparent"
        />
        <Attaching attach={attach} className="px-4 pb-3" />
        {open && (
          <div className="grid gap-3 border-t px-4 py-3 sm:grid-cols-2 lg:max-w-3xl">
            {field('agent', t('newTask.agent'), 'assistant')}
            {field('contextId', t('newTask.context'), t('newTask.contextNew'))}
            <Link
              to="/tasks/new"
              search={{
                ...(draft.contextId.trim() && { context_id: draft.contextId.trim() }),
                ...(draft.agent.trim() && { agent_slug: draft.agent.trim() }),
              }}
              state={{ prompt: draft.prompt, files: attach.files }}
              className="justify-self-start text-xs font-medium text-accent-strong hover:underline"
            >
              {t('newTask.more')}
            </Link>
          </div>
        )}
        {create.error && <Failure error={create.error} className="mx-4 mb-3" />}
        <div className="flex items-center gap-3 border-t px-2.5 py-2 text-xs">
          <AttachButton attach={attach} />
          <button
            type="button"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
            className="flex h-8 min-w-0 items-center gap-1 rounded-md px-1.5 text-ink-2 hover:bg-idle-soft hover:text-ink"
          >
            <ChevronRight
              className={cn('size-4 shrink-0 text-ink-3 transition-transform', open && 'rotate-90')}
              aria-hidden
            />
            <span className="truncate">
              <span className="font-medium text-ink">{draft.agent.trim() || '–'}</span>
              {' · '}
              {draft.contextId.trim() || t('newTask.contextNew')}
            </span>
          </button>
          <span className="ml-auto truncate text-ink-3 max-md:hidden">{t('task.composer.keys')}</span>
          <Button
            type="submit"
            look="primary"
            size="icon"
            className="max-md:ml-auto"
            aria-label={t('newTask.submit')}
            title={t('newTask.submit')}
            busy={create.isPending}
            disabled={!able}
          >
            <SendHorizontal className="size-4" aria-hidden />
          </Button>
        </div>
      </form>
    </Card>
  )
}
