import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Ban, CopyPlus, RotateCcw } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { useReadsOnly } from '@/api/session'
import { Badge } from '@/ui/badge'
import { Button, buttonClass } from '@/ui/button'
import { Confirm } from '@/ui/dialog'
import { toast, useSayError } from '@/ui/toast'
import { isFinal } from './events'

/** Failures that the same task meets again: something of it has to change. */
const needsChange = [
  'invalid_input',
  'refused',
  'incomplete',
  'context_too_long',
  'budget_exceeded',
  'permission_denied',
  'timeout',
]

/** What can be done with a task in its state; what helps stands out. */
export function Actions({ task }: { task: Task }) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const sayError = useSayError()
  const [asking, setAsking] = useState(false)
  const params = { params: { path: { id: task.id } } }
  // The answer to a change may come after what has happened since.
  const show = (next: Task) =>
    client.setQueryData<Task>(keys.task(task.id), (now) => (now && now.updated_at > next.updated_at ? now : next))
  const requeue = useMutation({
    mutationFn: () => data(api.POST('/api/runtime/llm-tasks/{id}/requeue', params)),
    onSuccess: (next) => {
      if (next) show(next)
      toast(t('task.requeued'))
    },
    onError: sayError,
  })
  const cancel = async () => {
    const next = await data(api.POST('/api/runtime/llm-tasks/{id}/cancel', params))
    if (next) show(next)
    toast(next?.status === 'cancelled' ? t('task.cancelled') : t('task.cancelling'))
  }
  const readsOnly = useReadsOnly()
  if (readsOnly) return null
  const over = isFinal(task.status)
  const change = task.status === 'failed' && needsChange.includes(task.error_class ?? '')
  return (
    <>
      {task.cancel_requested && !over && <Badge tone="warn">{t('task.cancelling')}</Badge>}
      <Link to="/tasks/new" search={{ from: task.id }} className={buttonClass(change ? 'primary' : 'secondary')}>
        <CopyPlus className="size-4" aria-hidden />
        {t('task.again')}
      </Link>
      {over && task.status !== 'completed' && (
        <Button look={change ? 'secondary' : 'primary'} busy={requeue.isPending} onClick={() => requeue.mutate()}>
          <RotateCcw className="size-4" aria-hidden />
          {t('task.requeue')}
        </Button>
      )}
      {!over && (
        <Button look="danger" disabled={task.cancel_requested} onClick={() => setAsking(true)}>
          <Ban className="size-4" aria-hidden />
          {t('task.cancel')}
        </Button>
      )}
      <Confirm
        open={asking}
        onOpenChange={setAsking}
        title={t('task.cancelTitle')}
        lead={task.status === 'queued' ? t('task.cancelQueued') : t('task.cancelRunning')}
        action={t('task.cancel')}
        danger
        run={cancel}
      />
    </>
  )
}
