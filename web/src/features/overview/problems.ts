import type { Health, Stats, Task, Worker } from '@/api/client'
import { reasonOf } from '@/features/task/waiting'

/** Something that is wrong, where to look, and how bad it is. */
export type Problem =
  | { what: 'storage' | 'noWorkers' | 'allOffline'; bad: true; to: '/workers' | '/settings' }
  | { what: 'offline' | 'noCli' | 'draining'; bad: boolean; workers: string[]; to: '/workers' }
  | { what: 'dead' | 'failed'; bad: boolean; count: number; to: '/tasks'; status: string }
  | {
      what: 'labels' | 'stuck'
      bad: boolean
      count: number
      labels: string
      oldest: number
      to: '/tasks'
      status: 'queued'
    }
  | { what: 'membridge'; bad: boolean; to: '/membridge' }

/** A task that waits for longer than this, though nothing says why, is worth a look. */
const patience = 60_000

/** What is wrong now, the worst first. */
export function problemsOf(facts: {
  health?: Health | undefined
  stats?: Stats | undefined
  workers?: Worker[] | undefined
  queued?: Task[] | undefined
  failed?: Task[] | undefined
  now: number
}): Problem[] {
  const { health, stats, workers, queued = [], now } = facts
  const found: Problem[] = []
  if (health?.status === 'degraded') found.push({ what: 'storage', bad: true, to: '/settings' })
  if (workers) found.push(...ofWorkers(workers, queued.length > 0))
  if (workers?.some((w) => w.status === 'online')) found.push(...ofQueue(queued, workers, now))
  const by = stats?.tasks.by_status ?? {}
  if (by.dead) found.push({ what: 'dead', bad: true, count: by.dead, to: '/tasks', status: 'dead' })
  const lately = facts.failed?.filter((t) => now - t.updated_at < 86_400_000).length ?? 0
  if (lately > 0) found.push({ what: 'failed', bad: false, count: lately, to: '/tasks', status: 'failed' })
  if (health && health.membridge.consecutiveFailures > 2)
    found.push({ what: 'membridge', bad: false, to: '/membridge' })
  return found.sort((a, b) => Number(b.bad) - Number(a.bad))
}

function ofWorkers(workers: Worker[], waiting: boolean): Problem[] {
  if (workers.length === 0) return waiting ? [{ what: 'noWorkers', bad: true, to: '/workers' }] : []
  const offline = workers.filter((w) => w.status === 'offline' || w.status === 'error')
  if (offline.length === workers.length) return [{ what: 'allOffline', bad: true, to: '/workers' }]
  const found: Problem[] = []
  const names = (list: Worker[]) => list.map((w) => w.id)
  if (offline.length > 0) found.push({ what: 'offline', bad: false, workers: names(offline), to: '/workers' })
  const online = workers.filter((w) => w.status === 'online')
  const without = online.filter((w) => !w.capabilities.claude_cli)
  if (without.length > 0) found.push({ what: 'noCli', bad: false, workers: names(without), to: '/workers' })
  if (online.length > 0 && online.every((w) => w.draining))
    found.push({ what: 'draining', bad: waiting, workers: names(online), to: '/workers' })
  return found
}

function ofQueue(queued: Task[], workers: Worker[], now: number): Problem[] {
  const found: Problem[] = []
  const unfit = queued.filter((t) => reasonOf(t, workers, now).why === 'labels')
  const oldestOf = (tasks: Task[]) => Math.min(...tasks.map((t) => t.created_at))
  if (unfit.length > 0) {
    const labels = [...new Set(unfit.flatMap((t) => t.labels ?? []))].join(', ')
    found.push({
      what: 'labels',
      bad: true,
      count: unfit.length,
      labels,
      oldest: oldestOf(unfit),
      to: '/tasks',
      status: 'queued',
    })
  }
  const late = queued.filter(
    (t) => now - Math.max(t.run_at, t.created_at) > patience && reasonOf(t, workers, now).why === 'busy',
  )
  if (late.length > 0)
    found.push({
      what: 'stuck',
      bad: false,
      count: late.length,
      labels: '',
      oldest: oldestOf(late),
      to: '/tasks',
      status: 'queued',
    })
  return found
}
