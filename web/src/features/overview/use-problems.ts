import { useQueries, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, data, type Task } from '@/api/client'
import { health, keys, stats, task, workers } from '@/api/queries'
import { useNow } from '@/lib/format'
import { type Problem, problemsOf } from './problems'

const ofStatus = (status: 'queued' | 'failed') => ({
  queryKey: [...keys.stats, 'tasks', status], // read again with the counts
  queryFn: () => data(api.GET('/api/runtime/llm-tasks', { params: { query: { status, limit: 100, preview: 80 } } })),
})

const released = {
  queryKey: [...keys.audit, 'released'],
  queryFn: () => data(api.GET('/api/runtime/audit', { params: { query: { action: 'task_released', limit: 50 } } })),
}

/** So many tasks are asked what they wait for: one of each kind. */
const mostAsked = 8

/** What is wrong, as far as the server says it; undefined until it has said the first things. */
export function useProblems(): Problem[] | undefined {
  const now = useNow()
  const healthNow = useQuery(health).data
  const statsNow = useQuery(stats).data
  const fleet = useQuery(workers).data
  const queued = useQuery(ofStatus('queued')).data
  const failed = useQuery(ofStatus('failed')).data
  const releases = useQuery(released).data
  const kinds = useMemo(() => kindsOf(queued ?? [], Date.now()), [queued])
  const asked = useQueries({ queries: kinds.map(([first]) => task(first?.id ?? '')) })
  if (!statsNow || !fleet) return undefined
  const waiters = kinds.map((tasks, i) => ({ tasks, why: asked[i]?.data?.waiting_for }))
  return problemsOf({ health: healthNow, stats: statsNow, workers: fleet, waiters, failed, released: releases, now })
}

/** Queued tasks by what makes them wait alike: their labels, and their context when its tasks run in order. */
export function kindsOf(queued: Task[], now: number): [Task, ...Task[]][] {
  const kinds = new Map<string, [Task, ...Task[]]>()
  for (const t of queued) {
    if (t.run_at > now) continue
    const key = JSON.stringify([[...(t.labels ?? [])].sort(), t.policy.ordered ? t.context_id : ''])
    const kind = kinds.get(key)
    if (kind)
      kind.unshift(t) // the list is newest first: the oldest is asked
    else kinds.set(key, [t])
  }
  return [...kinds.values()].slice(0, mostAsked)
}
