import { type InfiniteData, infiniteQueryOptions, useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useMemo, useState } from 'react'
import { api, data, type Page, page, type Task } from '@/api/client'
import { idle, isFetching, keys, taskLists } from '@/api/queries'
import type { TaskFilters } from '@/app/router'
import { type Change, useChanges } from '@/live/live'
import { conditionsOf } from './view'

const pageSize = 100
/** Tasks that a sorted list is made of, if there are so many: the most that the server lists at once. */
export const sortedSize = 1000
/** More changes than this at once are read with the list, not one by one. */
const single = 12

type Pages = InfiniteData<Page<Task>, string | null>

const readPage = (filters: TaskFilters, limit: number, cursor: string | null, signal?: AbortSignal) => {
  const { labels, since, ...rest } = conditionsOf(filters)
  const query = {
    ...rest,
    ...(labels.length > 0 ? { label: labels } : {}),
    ...(since > 0 ? { since } : {}),
    limit,
    ...(cursor ? { cursor } : {}),
    preview: 300,
  }
  return page<Task>(api.GET('/api/runtime/llm-tasks', { params: { query }, ...(signal ? { signal } : {}) }))
}

export const taskList = (filters: TaskFilters, limit = pageSize) =>
  infiniteQueryOptions({
    queryKey: [...taskLists, filters, limit] as const,
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) => readPage(filters, limit, pageParam, signal),
    getNextPageParam: (last) => last.next,
    staleTime: Number.POSITIVE_INFINITY, // changes keep it current
  })

/**
 * The list of tasks, kept current without jumping: a task that is shown changes
 * in its place, new ones wait above the list until they are asked for, unless the
 * list is at its top.
 */
export function useTasks(filters: TaskFilters, atTop: () => boolean, limit = pageSize) {
  const client = useQueryClient()
  const query = useInfiniteQuery(taskList(filters, limit))
  const key = taskList(filters, limit).queryKey
  const [fresh, showFresh] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another list has changes of its own
  const waiting = useMemo(() => ({ changed: new Set<string>(), busy: false, fresh: 0 }), [filters, limit])
  const setFresh = useCallback(
    (n: number) => {
      waiting.fresh = n
      showFresh(n)
    },
    [waiting],
  )

  // The first page alone: what is further down keeps its place.
  const readHead = useCallback(
    () =>
      client.fetchQuery({
        queryKey: [...keys.tasks, 'head', filters, limit],
        queryFn: () => readPage(filters, limit, null),
        staleTime: 0,
      }),
    [client, filters, limit],
  )
  /**
   * Changes the list by what read gives. While pages are fetched nothing is written: the list
   * would be as it was when the fetch began. What was read meanwhile is read again.
   */
  const write = useCallback(
    async <T>(read: () => Promise<T>, change: (old: Pages | undefined, now: T) => Pages | undefined) => {
      for (;;) {
        await idle(client, { queryKey: key, exact: true })
        const now = await read()
        if (isFetching(client, { queryKey: key, exact: true })) continue
        // Of a list that is no longer shown not every change is heard: it is read again when it is.
        if (!client.getQueryCache().find({ queryKey: key })?.isActive())
          return client.invalidateQueries({ queryKey: key, exact: true, refetchType: 'none' })
        // A change of a part would hide that reading the whole again has failed.
        if (client.getQueryState(key)?.isInvalidated) return client.refetchQueries({ queryKey: key, exact: true })
        client.setQueryData<Pages>(key, (old) => change(old, now))
        return
      }
    },
    [client, key],
  )
  const refresh = useCallback(async () => {
    setFresh(0)
    await write(readHead, withHead)
  }, [readHead, write, setFresh])

  const settle = useCallback(async () => {
    const { changed } = waiting
    if (waiting.busy) return
    waiting.busy = true
    try {
      while (changed.size > 0) {
        const began = performance.now()
        const ids = [...changed]
        changed.clear()
        await idle(client, { queryKey: key, exact: true })
        const known = new Set(client.getQueryData<Pages>(key)?.pages.flatMap((p) => p.items.map((t) => t.id)))
        const shown = ids.filter((id) => known.has(id))
        if (shown.length > single) {
          await refresh()
        } else {
          await write(() => Promise.all(shown.map(readTask)), withTasks)
        }
        if (shown.length < ids.length) {
          if (atTop()) await refresh()
          // What changed may be further down, or not fit the filters: the list itself says what is new in it.
          else setFresh((await readHead()).items.filter((task) => !known.has(task.id)).length)
        }
        // A server that answers late is asked half of the time at most.
        const pause = Math.max(250, performance.now() - began)
        await new Promise((resolve) => setTimeout(resolve, pause))
      }
    } catch {
      // The connection is away; it says so itself, and afterwards everything is read again.
    } finally {
      waiting.busy = false
    }
  }, [client, key, readHead, refresh, write, waiting, setFresh, atTop])

  useChanges(
    useCallback(
      (change: Change) => {
        if (change.kind === 'missed') setFresh(0) // everything that is shown is read again
        if (change.kind !== 'task' || !change.task_id) return
        waiting.changed.add(change.task_id)
        void settle()
      },
      [settle, waiting, setFresh],
    ),
  )

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key is that of the filters, as waiting is
  useEffect(() => {
    showFresh(0) // another list has nothing new yet
    return () => {
      // New tasks that were only counted are read when the list is shown again.
      if (waiting.fresh > 0) void client.invalidateQueries({ queryKey: key, exact: true, refetchType: 'none' })
    }
  }, [client, waiting])

  return { query, fresh, refresh }
}

const readTask = (id: string) =>
  data(api.GET('/api/runtime/llm-tasks/{id}', { params: { path: { id } } })).catch(() => null)

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
function withTasks(old: Pages | undefined, tasks: (Task | null)[]): Pages | undefined {
  if (!old) return old
  const now = new Map(tasks.flatMap((t) => (t ? [[t.id, t] as const] : [])))
  return { ...old, pages: old.pages.map((p) => ({ ...p, items: p.items.map((t) => keepSnippet(t, now.get(t.id))) })) }
}

/** A task as it is now; only a search knows where it found it. */
function keepSnippet(old: Task, now: Task | undefined): Task {
  return !now ? old : old.snippet ? { ...now, snippet: old.snippet } : now
}
