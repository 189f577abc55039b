import { queryOptions } from '@tanstack/react-query'
import { api, type Page, page, type Task } from './client'
import { keys } from './queries'

/** The newest tasks: what the overview's chart, contexts and templates are made of. */
export const recentTasks = queryOptions({
  queryKey: [...keys.tasks, 'recent'],
  queryFn: (): Promise<Page<Task>> =>
    page<Task>(api.GET('/api/runtime/llm-tasks', { params: { query: { limit: 200 } } })),
  refetchInterval: 20_000,
})
