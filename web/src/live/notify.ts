import i18next from 'i18next'
import { api, data, type Task } from '@/api/client'
import { isFinal } from '@/features/task/events'
import { wantsNotifications } from '@/lib/preferences'
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

/** Shows a notification for each task that ends while the page is in the background. */
export function notifyOfEnds() {
  const told = new Set<string>()
  return live.subscribe((change) => {
    if (change.kind !== 'task' || !change.task_id) return
    if (!isFinal(change.status)) {
      told.delete(change.task_id) // requeued: its next end is news again
      return
    }
    if (!document.hidden || !canNotify() || Notification.permission !== 'granted' || !wantsNotifications()) return
    if (told.has(change.task_id)) return
    told.add(change.task_id)
    void tell(change.task_id).catch(() => told.delete(change.task_id ?? ''))
  })
}

async function tell(id: string) {
  const task = await data(api.GET('/api/runtime/llm-tasks/{id}', { params: { path: { id } } }))
  const worker = await navigator.serviceWorker.ready
  await worker.showNotification(i18next.t(`app.ended.${task.status as 'failed'}`), notificationOf(task))
}

/** Tabs of one browser show one notification: the newer replaces the older with its tag. */
export const notificationOf = (task: Task): NotificationOptions => ({
  body: task.prompt.trim().slice(0, 120),
  tag: task.id,
  icon: '/icon-192.png',
  lang: i18next.language,
  data: { to: `/tasks/${task.id}` },
})
