import { describe, expect, it } from 'vitest'
import type { AuditEntry, Health, Stats, Task, Worker } from '@/api/client'
import { type Facts, problemsOf } from './problems'
import { kindsOf } from './use-problems'

const now = 1_000_000_000
const minute = 60_000

const worker = (id: string, more: Partial<Worker> = {}) =>
  ({
    id,
    status: 'online',
    draining: false,
    capabilities: { claude_cli: true, max_concurrency: 1, labels: [] },
    ...more,
  }) as Worker
const task = (id: string, more: Partial<Task> = {}) =>
  ({
    id,
    status: 'queued',
    created_at: now - 2 * minute,
    run_at: 0,
    updated_at: now,
    labels: [] as string[],
    policy: { ordered: false },
    ...more,
  }) as Task
const stats = (by_status: Record<string, number>) => ({ tasks: { total: 9, by_status } }) as unknown as Stats
const health = (more: Partial<Health>) => ({ status: 'ok', membridge: { consecutiveFailures: 0 }, ...more }) as Health
const why = (reason: NonNullable<Task['waiting_for']>['reason'], more = {}): Task['waiting_for'] => ({
  reason,
  sentence: 'Because.',
  ...more,
})

const told = (facts: Partial<Facts>) =>
  problemsOf({ stats: stats({ queued: 1 }), workers: [worker('a')], waiters: [], now, ...facts })
const whats = (facts: Partial<Facts>) => told(facts).map((p) => p.what)

describe('the overview', () => {
  it('finds nothing wrong where nothing is', () => {
    expect(told({ health: health({}) })).toEqual([])
  })
  it('tells of a storage that is away and a disk that is low, the worst first', () => {
    const disk = { free_bytes: 500e6, total_bytes: 9e9, low: true }
    expect(whats({ health: health({ disk, status: 'degraded' }) })).toEqual(['storage', 'disk'])
    expect(told({ health: health({ disk }) })[0]).toMatchObject({ bad: false, free: 500e6 })
    expect(told({ health: health({ disk: { ...disk, free_bytes: 50e6 } }) })[0]?.bad).toBe(true)
  })
  it('tells of membridge after three failures', () => {
    const membridge = { consecutiveFailures: 3 } as Health['membridge']
    expect(whats({ health: health({ membridge }) })).toEqual(['membridge'])
  })
  it('tells of workers that are missing, offline, drained or without claude', () => {
    expect(whats({ workers: [] })).toEqual(['noWorkers'])
    expect(whats({ workers: [worker('a', { status: 'offline' })] })).toEqual(['allOffline'])
    expect(told({ workers: [worker('a'), worker('b', { status: 'offline' })] })).toMatchObject([
      { what: 'offline', names: ['b'] },
    ])
    expect(whats({ workers: [worker('a', { draining: true })] })).toEqual(['draining'])
    const without = worker('b', { capabilities: { claude_cli: false, max_concurrency: 1, labels: [] } })
    expect(whats({ workers: [worker('a'), without] })).toEqual(['noCli'])
  })
  it('tells of tasks that nobody can take at once, of others after a minute', () => {
    const labels = why('no_worker_with_labels', { labels: ['gpu'] })
    const fresh = [task('t', { created_at: now - 1000 })]
    expect(told({ waiters: [{ tasks: fresh, why: labels }] })).toMatchObject([
      { what: 'waitLabels', bad: true, labels: 'gpu', link: { params: { taskId: 't' } } },
    ])
    expect(told({ waiters: [{ tasks: fresh, why: why('workers_full') }] })).toEqual([])
    expect(told({ waiters: [{ tasks: [task('t'), task('u')], why: why('workers_full') }] })).toMatchObject([
      { what: 'waitFull', count: 2, since: now - 2 * minute, link: { to: '/tasks', search: { status: 'queued' } } },
    ])
  })
  it('counts tasks of several kinds that wait for the same, and says a reason that it does not know', () => {
    const waiters = [
      { tasks: [task('t')], why: why('ordered') },
      { tasks: [task('u')], why: why('ordered') },
      { tasks: [task('v')], why: why('of_the_future' as 'ordered') },
      { tasks: [task('w')], why: why('delayed') },
    ]
    expect(told({ waiters })).toMatchObject([
      { what: 'waitOrdered', count: 2 },
      { what: 'waitOther', count: 1, sentence: 'Because.' },
    ])
  })
  it('tells whose credentials are limited, until when, and whose are refused', () => {
    const released = [
      { actor: 'a', data: { run_at: now + minute } },
      { actor: 'a', data: { run_at: now + 2 * minute } },
      { actor: 'b', data: { run_at: now - minute } },
      { actor: 'c', data: { status: 'queued' } },
    ] as unknown as AuditEntry[]
    const failed = [task('f', { error_class: 'auth', worker_id: 'd' }), task('g', { error_class: 'timeout' })]
    expect(told({ released, failed })).toMatchObject([
      { what: 'credentials', names: ['d'], link: { params: { taskId: 'f' } } },
      { what: 'limited', names: ['a'], until: now + 2 * minute },
      { what: 'failed', count: 1 },
    ])
  })
})

describe('kinds of queued tasks', () => {
  it('are by labels and by ordered contexts, the oldest of each asked, delayed ones left out', () => {
    const queued = [
      task('new', { labels: ['b', 'a'] }),
      task('old', { labels: ['a', 'b'] }),
      task('one', { policy: { ordered: true } as Task['policy'], context_id: 'c' }),
      task('two', { policy: { ordered: true } as Task['policy'], context_id: 'd' }),
      task('later', { run_at: now + minute }),
    ]
    expect(kindsOf(queued, now).map((kind) => kind.map((t) => t.id))).toEqual([['old', 'new'], ['one'], ['two']])
  })
})
