import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { SendHorizontal } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { useReadsOnly } from '@/api/session'
import { AttachButton, Attaching, overClass, useAttach } from '@/features/new-task/attach'
import { createTask, draftOf } from '@/features/new-task/draft'
import { cn } from '@/lib/cn'
import { Button } from '@/ui/button'
import { Textarea } from '@/ui/field'
import { Failure } from '@/ui/states'
import { isFinal } from './events'

const id = 'composer'

/** Puts the cursor where the answer to a question goes. */
export const focusComposer = () => document.getElementById(id)?.focus()

/**
 * Continues a context with a task that is like its newest one and waits for it. While a task
 * runs that others do not wait for, nothing can be sent: of two at once, one would be lost to
 * the conversation.
 */
export function Composer({ contextId, onSent }: { contextId: string; onSent: (task: Task) => void }) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const readsOnly = useReadsOnly()
  const [text, setText] = useState('')
  const attach = useAttach()
  const latest = useQuery({
    queryKey: [...keys.contexts, contextId, 'newest'],
    queryFn: () =>
      data<Task[]>(api.GET('/api/runtime/llm-tasks', { params: { query: { context_id: contextId, limit: 1 } } })),
  }).data?.[0]
  const create = useMutation({
    mutationFn: (newest: Task) => createTask({ ...draftOf(newest), prompt: text.trim(), ordered: true }, attach.files),
    onSuccess: (task) => {
      setText('')
      attach.clear()
      client.setQueryData<Task>(keys.task(task.id), (now) => now ?? task)
      void client.invalidateQueries({ queryKey: keys.contexts })
      onSent(task)
    },
  })
  if (!latest || readsOnly || !(isFinal(latest.status) || latest.policy.ordered)) return null
  const send = (event?: FormEvent) => {
    event?.preventDefault()
    if (text.trim() !== '' && !create.isPending) create.mutate(latest)
  }
  return (
    <form
      aria-label={t('task.composer.label')}
      onSubmit={send}
      {...attach.target}
      className={cn('sticky bottom-0 z-10 -mx-1 mt-6 rounded-lg bg-canvas px-1 pt-2 pb-3', overClass)}
    >
      {create.error && <Failure error={create.error} className="mb-2" />}
      <Attaching attach={attach} className="mb-2" />
      <div className="flex items-end gap-2">
        <AttachButton attach={attach} />
        <Textarea
          id={id}
          aria-label={t('task.composer.label')}
          aria-describedby={`${id}-as`}
          placeholder={t('task.composer.placeholder')}
          rows={1}
          enterKeyHint="send"
          value={text}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            // Enter also ends a word that is being composed.
            if (e.key === 'Enter' && !e.shiftKey && !e.nativeEvent.isComposing) send(e)
          }}
          className="field-sizing-content max-h-48 resize-none"
        />
        <Button
          type="submit"
          look="primary"
          size="icon"
          aria-label={t('task.composer.send')}
          title={t('task.composer.send')}
          busy={create.isPending}
          disabled={text.trim() === ''}
        >
          <SendHorizontal className="size-4" aria-hidden />
        </Button>
      </div>
      <p id={`${id}-as`} className="mt-1.5 flex flex-wrap gap-x-3 gap-y-0.5 text-xs text-ink-3">
        <span className="min-w-0 truncate">{t('task.composer.as', { agent: latest.agent_slug })}</span>
        <span className="max-sm:hidden">{t('task.composer.keys')}</span>
        <Link
          to="/tasks/new"
          search={{ context_id: contextId, agent_slug: latest.agent_slug }}
          className="ml-auto font-medium text-accent-strong hover:underline"
        >
          {t('task.composer.more')}
        </Link>
      </p>
    </form>
  )
}
