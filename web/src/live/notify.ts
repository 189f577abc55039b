import i18next from 'i18next'
import { api, data, type Task } from '@/api/client'
import { isFinal } from '@/features/task/events'
import { questionOf } from '@/features/task/question'
import { notifies } from '@/lib/preferences'
import { live } from './live'

/** Browsers have service workers and notifications on safe addresses only: https, or this machine. */
export const canNotify = () => 'Notification' in window && 'serviceWorker' in navigator

export function registerWorker() {
  if (!('serviceWorker' in navigator)) return
  const register = () => void navigator.serviceWorker.register('/sw.js').catch(() => undefined)
  // Installing it must not compete with the first screen.
  if (document.readyState === 'complete') register()
  else addEventListener('load', register)
}

/** Ends that are remembered, so that none is shown twice. */
const mostTold = 1000

/** Shows a notification for each task that ends while the page is in the background. */
export function notifyOfEnds() {
  const told = new Set<string>()
  return live.subscribe((change) => {
    if (change.kind !== 'task' || !change.task_id) return
    if (!isFinal(change.status)) {
      told.delete(change.task_id) // requeued: its next end is news again
      return
    }
    if (!document.hidden || !canNotify() || !notifies()) return
    if (told.has(change.task_id)) return
    told.add(change.task_id)
    for (const oldest of told) if (told.size > mostTold) told.delete(oldest)
    void tell(change.task_id).catch(() => told.delete(change.task_id ?? ''))
  })
}

async function tell(id: string) {
  const task = await data(api.GET('/api/runtime/llm-tasks/{id}', { params: { path: { id } } }))
  const worker = await navigator.serviceWorker.ready
  const { how, question } = await endOf(task)
  await worker.showNotification(i18next.t(`app.ended.${how}`), notificationOf(task, question))
}

/** How a task ended, as far as somebody has to know: one that asks, or that could not do what it was to, is told apart. */
async function endOf(task: Task): Promise<{ how: 'completed' | 'failed' | 'asking' | 'denied'; question: string }> {
  if (task.status !== 'completed') return { how: task.status as 'failed', question: '' }
  const results = await data(api.GET('/api/runtime/llm-tasks/{id}/results', { params: { path: { id: task.id } } }))
  const result = results?.[0]
  const question = task.desired_format === 'text' ? questionOf(result?.output) : ''
  if (question) return { how: 'asking', question }
  const denied = result?.metrics.warnings?.some((w) => w.code === 'permission_denied') ?? false
  return { how: denied ? 'denied' : 'completed', question: '' }
}

/** Tabs of one browser show one notification: the newer replaces the older with its tag. */
const notificationOf = (task: Task, question: string): NotificationOptions => ({
  body: (question || task.prompt.trim()).slice(0, 120),
  tag: task.id,
  icon: '/icon-192.png',
  lang: i18next.language,
  data: { to: `/tasks/${task.id}` },
})
