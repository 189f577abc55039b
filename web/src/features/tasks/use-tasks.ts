import { type InfiniteData, infiniteQueryOptions, useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { api, data, type Page, page, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import type { TaskFilters } from '@/app/router'
import { type Change, useChanges } from '@/live/live'

const pageSize = 100
/** More changes than this at once are read with the list, not one by one. */
const single = 12

type Pages = InfiniteData<Page<Task>, string | null>

export const taskList = (filters: TaskFilters) =>
  infiniteQueryOptions({
    queryKey: [...keys.tasks, 'list', filters] as const,
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) => {
      const query = { ...filters, limit: pageSize, ...(pageParam ? { cursor: pageParam } : {}), preview: 300 }
      return page<Task>(api.GET('/api/runtime/llm-tasks', { params: { query }, signal }))
    },
    getNextPageParam: (last) => last.next,
    staleTime: Number.POSITIVE_INFINITY, // changes keep it current
  })

/**
 * The list of tasks, kept current without jumping: a task that is shown changes
 * in its place, new ones wait above the list until they are asked for, unless the
 * list is at its top.
 */
export function useTasks(filters: TaskFilters, atTop: () => boolean) {
  const client = useQueryClient()
  const query = useInfiniteQuery(taskList(filters))
  const key = taskList(filters).queryKey
  const [fresh, setFresh] = useState(0)
  const changed = useRef(new Set<string>())
  const busy = useRef(false)

  // The first page alone: what is further down keeps its place.
  const readHead = useCallback(
    () =>
      client.fetchQuery({
        queryKey: [...keys.tasks, 'head', filters],
        queryFn: () =>
          page<Task>(
            api.GET('/api/runtime/llm-tasks', {
              params: { query: { ...filters, limit: pageSize, preview: 300 } },
            }),
          ),
        staleTime: 0,
      }),
    [client, filters],
  )
  const refresh = useCallback(async () => {
    setFresh(0)
    const first = await readHead()
    client.setQueryData<Pages>(key, (old) => withHead(old, first))
  }, [client, readHead, key])

  const settle = useCallback(async () => {
    if (busy.current) return
    busy.current = true
    try {
      while (changed.current.size > 0) {
        const ids = [...changed.current]
        changed.current.clear()
        const known = new Set(client.getQueryData<Pages>(key)?.pages.flatMap((p) => p.items.map((t) => t.id)))
        const shown = ids.filter((id) => known.has(id))
        if (shown.length > single) {
          await refresh()
        } else {
          const tasks = await Promise.all(
            shown.map((id) =>
              data(api.GET('/api/runtime/llm-tasks/{id}', { params: { path: { id } } })).catch(() => null),
            ),
          )
          client.setQueryData<Pages>(key, (old) =>
            withTasks(
              old,
              tasks.filter((t) => t !== null && t !== undefined),
            ),
          )
        }
        if (shown.length < ids.length) {
          if (atTop()) await refresh()
          // What changed may be further down, or not fit the filters: the list itself says what is new in it.
          else setFresh((await readHead()).items.filter((task) => !known.has(task.id)).length)
        }
        await new Promise((resolve) => setTimeout(resolve, 250))
      }
    } catch {
      // The connection is away; it says so itself, and afterwards everything is read again.
    } finally {
      busy.current = false
    }
  }, [client, key, readHead, refresh, atTop])

  useChanges(
    useCallback(
      (change: Change) => {
        if (change.kind === 'missed') void refresh().catch(() => undefined)
        if (change.kind !== 'task' || !change.task_id) return
        changed.current.add(change.task_id)
        void settle()
      },
      [refresh, settle],
    ),
  )

  // biome-ignore lint/correctness/useExhaustiveDependencies: another list has nothing new yet
  useEffect(() => setFresh(0), [filters])

  return { query, fresh, refresh }
}

/** The list with its newest part read again. */
function withHead(old: Pages | undefined, head: Page<Task>): Pages {
  if (!old) return { pages: [head], pageParams: [null] }
  const now = new Set(head.items.map((t) => t.id))
  const oldest = head.items.at(-1)
  const [first, ...rest] = old.pages
  // What the old first page had below the new one stays, or there would be a hole.
  const below = oldest ? (first?.items.filter((t) => !now.has(t.id) && t.created_at <= oldest.created_at) ?? []) : []
  const joined = {
    items: [...head.items, ...(head.next ? below : [])],
    next: first && head.next ? first.next : head.next,
  }
  return {
    ...old,
    pages: [joined, ...(head.next ? rest.map((p) => ({ ...p, items: p.items.filter((t) => !now.has(t.id)) })) : [])],
    pageParams: head.next ? old.pageParams : [null],
  }
}

/** The list with these tasks as they are now, each in its place. */
function withTasks(old: Pages | undefined, tasks: Task[]): Pages | undefined {
  if (!old || tasks.length === 0) return old
  const now = new Map(tasks.map((t) => [t.id, t]))
  return { ...old, pages: old.pages.map((p) => ({ ...p, items: p.items.map((t) => keepSnippet(t, now.get(t.id))) })) }
}

/** A task as it is now; only a search knows where it found it. */
function keepSnippet(old: Task, now: Task | undefined): Task {
  return !now ? old : old.snippet ? { ...now, snippet: old.snippet } : now
}
