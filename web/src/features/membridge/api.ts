import { queryOptions } from '@tanstack/react-query'
import { api, data, page } from '@/api/client'
import { keys } from '@/api/queries'

// Membridge's own shapes, which the proxy passes on. Its times are in seconds.

export interface Project {
  name: string
  canonical_id: string
  last_seen: number | null
  nodes_count: number
  source: 'manual' | 'heartbeat'
}

export interface MemoryNode {
  node_id: string
  role: 'primary' | 'secondary' | 'unknown'
  obs_count: number | null
  db_sha: string
  last_seen: number | null
  ip_addrs: string[]
}

export interface Leadership {
  /** Who leads; null when nobody was selected, or the lease has expired. */
  preferred_primary: string | null
  last_primary?: string | null
  expired?: boolean
  /** The last term, expired or not. */
  lease?: { epoch: number; expires_at: number } | null
}

export interface Job {
  id: string
  kind: 'push' | 'pull'
  agent: string
  status: 'queued' | 'delivered' | 'completed' | 'failed'
  detail: string
  created_at: number
  stdout?: string
  stderr?: string
  returncode?: number | null
}

/** Who can be asked to move a project's memory. */
export interface Agent {
  name: string
  status: string
  /** Null when it never sent a heartbeat. */
  heartbeat_at: number | null
  url: string
}

const pace = { refetchInterval: 10_000 }

export const projects = queryOptions({
  queryKey: [...keys.membridge, 'projects'],
  queryFn: async () => (await data(api.GET('/api/membridge/projects'))) as Project[],
  retry: false,
  ...pace,
})

const of = (cid: string) => ({ params: { path: { cid } } })

export const nodes = (cid: string) =>
  queryOptions({
    queryKey: [...keys.membridge, cid, 'nodes'],
    queryFn: async () => (await data(api.GET('/api/membridge/projects/{cid}/nodes', of(cid)))) as MemoryNode[],
    ...pace,
  })

export const leadership = (cid: string) =>
  queryOptions({
    queryKey: [...keys.membridge, cid, 'leadership'],
    queryFn: async () => (await data(api.GET('/api/membridge/projects/{cid}/leadership', of(cid)))) as Leadership,
    ...pace,
  })

export const jobs = (cid: string) =>
  queryOptions({
    queryKey: [...keys.membridge, cid, 'jobs'],
    queryFn: async () =>
      (await data(api.GET('/api/membridge/jobs', { params: { query: { project: cid, limit: 20 } } }))) as Job[],
    ...pace,
  })

export const job = (id: string) =>
  queryOptions({
    queryKey: [...keys.membridge, 'job', id],
    queryFn: async () => (await data(api.GET('/api/membridge/jobs/{id}', { params: { path: { id } } }))) as Job,
    // An agent takes its order with its next heartbeat, and reports with a later one.
    refetchInterval: (query) => (isOver(query.state.data) ? false : 1000),
  })

export const isOver = (job: Job | undefined) => job?.status === 'completed' || job?.status === 'failed'

export const agents = queryOptions({
  queryKey: [...keys.membridge, 'agents'],
  queryFn: async () => {
    const all: Agent[] = []
    let cursor: string | undefined
    do {
      const one = await page(api.GET('/api/membridge/agents', { params: { query: { cursor } } }))
      all.push(...(one.items as Agent[]))
      cursor = one.next ?? undefined
    } while (cursor)
    return all
  },
})

/** Has an agent move a project's memory; the answer is the job's id. */
export async function sync(kind: Job['kind'], project: string, agent: string): Promise<string> {
  const body = { body: { project, agent } }
  const answer = await data(
    kind === 'push' ? api.POST('/api/membridge/sync/push', body) : api.POST('/api/membridge/sync/pull', body),
  )
  return (answer as { job_id: string }).job_id
}

/** Fails when somebody else has selected a leader since this page was read. */
export const promote = (cid: string, node: string, epoch: number | undefined) =>
  api.POST('/api/membridge/projects/{cid}/leadership/select', {
    ...of(cid),
    body: { primary_node_id: node, ...(epoch === undefined ? {} : { expected_epoch: epoch }) },
  })
