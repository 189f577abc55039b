import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, renderHook, waitFor } from '@testing-library/react'
import type { ReactNode } from 'react'
import { beforeEach, expect, it, vi } from 'vitest'
import type { Change } from '@/live/live'
import { taskList, useTasks } from './use-tasks'

/** A server with two pages of one task each; what is asked of it can be held back. */
const server = vi.hoisted(() => ({
  status: 'running',
  asked: [] as string[],
  held: new Map<string, Promise<void>>(),
}))
vi.mock('@/api/client', async (load) => ({
  ...(await load<object>()),
  api: {
    GET: async (path: string, { params }: { params: { query?: { cursor?: string }; path?: { id: string } } }) => {
      const name = params.path ? 'task' : params.query?.cursor ? 'second page' : 'first page'
      server.asked.push(name)
      const task = (id: string) => ({ id, status: server.status, created_at: 1 })
      const data = params.path ? task(params.path.id) : [task(params.query?.cursor ?? 'a')]
      const headers = new Headers(name === 'first page' ? { Link: `<${path}?cursor=b>; rel="next"` } : {})
      await server.held.get(name)
      return { data, response: { headers } }
    },
  },
}))
const changes = vi.hoisted(() => new Set<(change: Change) => void>())
vi.mock('@/live/live', async () => {
  const { useEffect } = await import('react')
  return {
    useChanges: (listener: (change: Change) => void) =>
      useEffect(() => {
        changes.add(listener)
        return () => void changes.delete(listener)
      }, [listener]),
  }
})

beforeEach(() => {
  Object.assign(server, { status: 'running', asked: [], held: new Map() })
})

/** Holds back the answers with that name; what it returns lets them go. */
function hold(name: string) {
  let release = () => {}
  const until = new Promise<void>((resolve) => {
    release = resolve
  })
  server.held.set(name, until)
  return () => {
    server.held.delete(name)
    release()
  }
}

const noFilters = {}

async function shown() {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  )
  const hook = renderHook(() => useTasks(noFilters, () => false), { wrapper })
  const list = () => hook.result.current.query
  const statuses = () => list().data?.pages.flatMap((p) => p.items.map((t) => `${t.id} ${t.status}`))
  await waitFor(() => expect(statuses()).toEqual(['a running']))
  const loadMore = () => act(async () => void list().fetchNextPage())
  return { client, hook, statuses, loadMore }
}

/** The task a ends, and the application hears of it. */
const end = () =>
  act(async () => {
    server.status = 'completed'
    for (const listener of changes) listener({ kind: 'task', task_id: 'a' })
    await new Promise((resolve) => setTimeout(resolve)) // what can go on has gone on
  })

const askedFor = (name: string) => waitFor(() => expect(server.asked).toContain(name))

it('shows a change that comes while more is loaded', async () => {
  const { statuses, loadMore } = await shown()
  const release = hold('second page')
  await loadMore()
  await askedFor('second page')
  await end()
  await act(async () => release())
  await waitFor(() => expect(statuses()).toEqual(['a completed', 'b running']))
})

it('shows a change that is being read when more is loaded', async () => {
  const { statuses, loadMore } = await shown()
  const releaseTask = hold('task')
  const releasePage = hold('second page')
  await end()
  await askedFor('task')
  await loadMore()
  await askedFor('second page')
  await act(async () => {
    releaseTask()
    await new Promise((resolve) => setTimeout(resolve))
  })
  await act(async () => releasePage())
  await waitFor(() => expect(statuses()).toEqual(['a completed', 'b completed']))
})

it('is read again after it was left while a change was being read', async () => {
  const { client, hook } = await shown()
  const release = hold('task')
  await end()
  await askedFor('task')
  hook.unmount()
  release()
  await waitFor(() => expect(client.getQueryState(taskList(noFilters).queryKey)?.isInvalidated).toBe(true))
})
