import { type QueryClient, type QueryFilters, queryOptions, useQuery } from '@tanstack/react-query'
import { api, data, type Health } from './client'

/**
 * Keys of everything that is cached. Live changes invalidate by the first word,
 * so a new query of tasks begins with 'tasks', of workers with 'workers' …
 */
export const keys = {
  tasks: ['tasks'] as const,
  task: (id: string) => ['task', id] as const,
  approvals: ['approvals'] as const,
  workers: ['workers'] as const,
  leases: ['leases'] as const,
  stats: ['stats'] as const,
  health: ['health'] as const,
  config: ['config'] as const,
  artifacts: ['artifacts'] as const,
  audit: ['audit'] as const,
  membridge: ['membridge'] as const,
  contexts: ['contexts'] as const,
  schedules: ['schedules'] as const,
  filters: ['filters'] as const,
  apiKeys: ['api-keys'] as const,
}

/** All lists of tasks, whatever their filters. */
export const taskLists = [...keys.tasks, 'list'] as const

export const health = queryOptions({
  queryKey: keys.health,
  queryFn: async () => {
    const { data, error } = await api.GET('/api/runtime/health')
    return data ?? (error as Health) // of a degraded server; other failures were thrown
  },
  refetchInterval: 15_000,
})

/** Whether the server has a control plane. True until it is known: what goes then moves less than what comes. */
export const useMembridge = () => useQuery(health).data?.membridge.disabled !== true

/** Whether its control plane answers, or has since the server started: until then nothing is there to look at. */
export const useMembridgeAnswers = () => {
  const state = useQuery(health).data?.membridge
  return state?.connected === true || (state?.lastSuccess ?? null) !== null
}

export const stats = queryOptions({
  queryKey: keys.stats,
  queryFn: () => data(api.GET('/api/runtime/stats')),
})

/** What is wrong, read again with the counts: what changes them changes it. */
export const problems = queryOptions({
  queryKey: [...keys.stats, 'problems'],
  queryFn: () => data(api.GET('/api/runtime/problems')),
  refetchInterval: 5_000,
})

export const workers = queryOptions({
  queryKey: keys.workers,
  queryFn: () => data(api.GET('/api/runtime/workers')),
  refetchInterval: 30_000, // a worker that falls silent changes nothing by itself
})

export const worker = (id: string) =>
  queryOptions({
    queryKey: [...keys.workers, id],
    queryFn: () => data(api.GET('/api/runtime/workers/{id}', { params: { path: { id } } })),
  })

export const task = (id: string) =>
  queryOptions({
    queryKey: keys.task(id),
    queryFn: () => data(api.GET('/api/runtime/llm-tasks/{id}', { params: { path: { id } } })),
    // What it waits for changes with the workers, not with the task.
    refetchInterval: (query) => (query.state.data?.status === 'queued' ? 5_000 : false),
  })

/** Whether something that matches is being fetched. */
export const isFetching = (client: QueryClient, filters: QueryFilters) =>
  client.getQueryCache().findAll({ ...filters, predicate: (q) => q.state.fetchStatus !== 'idle' }).length > 0

/** Waits until nothing that matches is being fetched. */
export const idle = (client: QueryClient, filters: QueryFilters) =>
  new Promise<void>((resolve) => {
    if (!isFetching(client, filters)) return resolve()
    const stop = client.getQueryCache().subscribe(() => {
      if (isFetching(client, filters)) return
      stop()
      resolve()
    })
  })
