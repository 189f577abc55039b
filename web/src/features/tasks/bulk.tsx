import { Ban, RotateCcw } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Task } from '@/api/client'
import { useReadsOnly } from '@/api/session'
import { isFinal } from '@/features/task/events'
import { Button } from '@/ui/button'
import { Confirm } from '@/ui/dialog'
import { toast } from '@/ui/toast'

type Act = 'cancel' | 'requeue'

const atOnce = 1000 // the most that the server takes

/** Cancels or requeues the chosen tasks, as far as their state allows it. */
export function Bulk({ tasks, chosen, onDone }: { tasks: Task[]; chosen: ReadonlySet<string>; onDone: () => void }) {
  const { t } = useTranslation()
  const [asking, setAsking] = useState<Act | null>(null)
  if (useReadsOnly() || chosen.size === 0) return null
  const picked = tasks.filter((task) => chosen.has(task.id))
  const fit: Record<Act, Task[]> = {
    cancel: picked.filter((task) => !isFinal(task.status) && !task.cancel_requested),
    requeue: picked.filter((task) => isFinal(task.status) && task.status !== 'completed'),
  }
  const run = async (act: Act) => {
    const ids = fit[act].map((task) => task.id)
    const count = ids.length
    let done = 0
    try {
      for (let i = 0; i < count; i += atOnce) {
        const body = { body: { ids: ids.slice(i, i + atOnce) } }
        const { results } = await data(
          act === 'cancel'
            ? api.POST('/api/runtime/llm-tasks/cancel', body)
            : api.POST('/api/runtime/llm-tasks/requeue', body),
        )
        done += results.filter((r) => r.ok).length
      }
    } catch {
      // what was not answered counts as refused
    }
    const refused = count - done
    if (refused > 0) toast(t('tasks.bulk.refused', { count: refused }), 'bad')
    else toast(act === 'cancel' ? t('tasks.bulk.cancelled', { count }) : t('tasks.bulk.requeued', { count }))
    onDone()
  }
  return (
    <div className="rise sticky top-14 z-20 mb-3 flex flex-wrap items-center gap-2 rounded-card border bg-raised py-1.5 pr-1.5 pl-4 shadow-float">
      <p className="mr-auto text-[13px] font-medium">{t('tasks.bulk.chosen', { count: chosen.size })}</p>
      <Button size="sm" disabled={fit.requeue.length === 0} onClick={() => setAsking('requeue')}>
        <RotateCcw className="size-3.5" aria-hidden />
        {t('tasks.bulk.requeue', { n: fit.requeue.length })}
      </Button>
      <Button size="sm" look="danger" disabled={fit.cancel.length === 0} onClick={() => setAsking('cancel')}>
        <Ban className="size-3.5" aria-hidden />
        {t('tasks.bulk.cancel', { n: fit.cancel.length })}
      </Button>
      <Button size="sm" look="ghost" onClick={onDone}>
        {t('tasks.bulk.none')}
      </Button>
      {asking && (
        <Confirm
          open
          onOpenChange={() => setAsking(null)}
          title={
            asking === 'cancel'
              ? t('tasks.bulk.cancelTitle', { count: fit.cancel.length })
              : t('tasks.bulk.requeueTitle', { count: fit.requeue.length })
          }
          lead={asking === 'cancel' ? t('tasks.bulk.cancelLead') : t('tasks.bulk.requeueLead')}
          action={
            asking === 'cancel'
              ? t('tasks.bulk.cancelDo', { count: fit.cancel.length })
              : t('tasks.bulk.requeueDo', { count: fit.requeue.length })
          }
          danger={asking === 'cancel'}
          run={() => run(asking)}
        />
      )}
    </div>
  )
}
