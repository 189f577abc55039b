import type { LinkProps } from '@tanstack/react-router'
import type { AuditEntry, Health, Stats, Task, Worker } from '@/api/client'

/** Something that is wrong, where to look, and how bad it is. */
export interface Problem {
  what:
    | 'storage'
    | 'disk'
    | 'noWorkers'
    | 'allOffline'
    | 'offline'
    | 'noCli'
    | 'draining'
    | 'limited'
    | 'credentials'
    | 'waitLabels'
    | 'waitDrained'
    | 'waitFull'
    | 'waitOrdered'
    | 'waitOther'
    | 'dead'
    | 'failed'
    | 'membridge'
  /** Work stops, or will soon. */
  bad: boolean
  link: LinkProps
  count?: number
  names?: string[]
  labels?: string
  /** Unix milliseconds: since when the oldest waits; until when a limit lasts. */
  since?: number
  until?: number
  /** Bytes. */
  free?: number
  sentence?: string
}

/** Queued tasks that wait for the same thing, and what the server says that it is. */
export interface Waiters {
  tasks: Task[]
  why: Task['waiting_for']
}

export interface Facts {
  health?: Health | undefined
  stats?: Stats | undefined
  workers?: Worker[] | undefined
  waiters: Waiters[]
  failed?: Task[] | undefined
  /** What the audit says of released tasks, newest first. */
  released?: AuditEntry[] | undefined
  now: number
}

/** A task that waits for longer than this for its turn is worth a look. */
export const patience = 60_000
const day = 86_400_000

/** What is wrong now, the worst first. */
export function problemsOf(facts: Facts): Problem[] {
  const { health, stats, workers, now } = facts
  const found: Problem[] = []
  if (health?.status === 'degraded') found.push({ what: 'storage', bad: true, link: { to: '/settings' } })
  if (health?.disk?.low) {
    const free = health.disk.free_bytes
    found.push({ what: 'disk', bad: free < 100e6, free, link: { to: '/settings' } })
  }
  const waiting = (stats?.tasks.by_status.queued ?? 0) > 0
  if (workers) found.push(...ofWorkers(workers, waiting))
  found.push(...ofCredentials(facts))
  if (workers?.some((w) => w.status === 'online')) found.push(...ofQueue(facts.waiters, now))
  const dead = stats?.tasks.by_status.dead
  if (dead) found.push({ what: 'dead', bad: true, count: dead, link: tasksOf('dead') })
  const lately = facts.failed?.filter((t) => now - t.updated_at < day && t.error_class !== 'auth').length ?? 0
  if (lately > 0) found.push({ what: 'failed', bad: false, count: lately, link: tasksOf('failed') })
  if (health && health.membridge.consecutiveFailures > 2)
    found.push({ what: 'membridge', bad: false, link: { to: '/membridge' } })
  return found.sort((a, b) => Number(b.bad) - Number(a.bad))
}

const tasksOf = (status: Task['status']): LinkProps => ({ to: '/tasks', search: { status } })

function ofWorkers(workers: Worker[], waiting: boolean): Problem[] {
  const link: LinkProps = { to: '/workers' }
  if (workers.length === 0) return waiting ? [{ what: 'noWorkers', bad: true, link }] : []
  const offline = workers.filter((w) => w.status === 'offline' || w.status === 'error')
  if (offline.length === workers.length) return [{ what: 'allOffline', bad: true, link }]
  const found: Problem[] = []
  const add = (what: Problem['what'], bad: boolean, list: Worker[]) => {
    if (list.length > 0) found.push({ what, bad, link, count: list.length, names: list.map((w) => w.id) })
  }
  add('offline', false, offline)
  const online = workers.filter((w) => w.status === 'online')
  add(
    'noCli',
    false,
    online.filter((w) => !w.capabilities.claude_cli),
  )
  if (online.every((w) => w.draining)) add('draining', waiting, online)
  return found
}

/** Credentials that the model's provider limits, by what workers released until later, or refuses. */
function ofCredentials({ released = [], failed = [], now }: Facts): Problem[] {
  const found: Problem[] = []
  const limited = new Map<string, number>()
  for (const entry of released) {
    const until = (entry.data as { run_at?: number } | null)?.run_at ?? 0
    if (until > now) limited.set(entry.actor, Math.max(until, limited.get(entry.actor) ?? 0))
  }
  if (limited.size > 0) {
    const until = Math.max(...limited.values())
    const names = [...limited.keys()]
    found.push({ what: 'limited', bad: false, link: { to: '/workers' }, count: names.length, names, until })
  }
  const refused = failed.filter((t) => t.error_class === 'auth' && now - t.updated_at < day)
  const last = refused[0]
  if (last) {
    const names = [...new Set(refused.flatMap((t) => t.worker_id ?? []))]
    const link: LinkProps = { to: '/tasks/$taskId', params: { taskId: last.id } }
    found.push({ what: 'credentials', bad: true, link, count: refused.length, names })
  }
  return found
}

const waits: Partial<Record<NonNullable<Task['waiting_for']>['reason'], Problem['what']>> = {
  no_worker_with_labels: 'waitLabels',
  workers_drained: 'waitDrained',
  workers_full: 'waitFull',
  ordered: 'waitOrdered',
}
/** These pass by nobody's doing; the others may pass by themselves. */
const stuck = new Set<Problem['what']>(['waitLabels', 'waitDrained'])

function ofQueue(waiters: Waiters[], now: number): Problem[] {
  const found = new Map<string, Problem & { oldest: Task }>()
  for (const { tasks, why } of waiters) {
    // That there are no workers is told of the workers; a delay is what somebody asked for.
    if (!why || why.reason === 'delayed' || /^no_worker_(registered|online|with_claude)$/.test(why.reason)) continue
    const what = waits[why.reason] ?? 'waitOther'
    const late = stuck.has(what) ? tasks : tasks.filter((t) => now - sinceOf(t) > patience)
    const oldest = late.reduce<Task | undefined>((a, b) => (a && sinceOf(a) <= sinceOf(b) ? a : b), undefined)
    if (!oldest) continue
    const labels = why.labels?.join(', ') ?? ''
    const key = `${what} ${labels} ${what === 'waitOther' ? why.sentence : ''}`
    const before = found.get(key)
    const first = before && sinceOf(before.oldest) <= sinceOf(oldest) ? before.oldest : oldest
    const count = late.length + (before?.count ?? 0)
    const link: LinkProps = count === 1 ? { to: '/tasks/$taskId', params: { taskId: first.id } } : tasksOf('queued')
    const bad = stuck.has(what)
    found.set(key, { what, bad, link, count, labels, sentence: why.sentence, since: sinceOf(first), oldest: first })
  }
  return [...found.values()]
}

/** Since when a task could have been started. */
const sinceOf = (task: Task) => Math.max(task.run_at, task.created_at)
