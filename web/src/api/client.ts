import createClient, { type Middleware } from 'openapi-fetch'
import { ApiError, failureOf } from './failure'
import type { components, paths } from './schema'

export { ApiError, type FieldProblem, failureOf, signedOut } from './failure'

type Schemas = components['schemas']
export type Task = Schemas['Task']
export type TaskStatus = Task['status']
export const taskStatuses = ['queued', 'leased', 'running', 'completed', 'failed', 'dead', 'cancelled'] as const
export const isTaskStatus = (value: unknown): value is TaskStatus =>
  typeof value === 'string' && (taskStatuses as readonly string[]).includes(value)
export type Lease = Schemas['Lease']
export type Worker = Schemas['Worker']
export type Approval = Schemas['Approval']
export type Decision = Schemas['Decision']
export type Artifact = Schemas['Artifact']
export type Result = Schemas['Result']
export type AuditEntry = Schemas['Audit']
export type Context = Schemas['Context']
export type Schedule = Schemas['Schedule']
export type ScheduleSpec = Schemas['ScheduleSpec']
export type Stats = Schemas['Stats']
export type SeriesPoint = Schemas['SeriesPoint']
export type Health = Schemas['Health']
export type Problem = Schemas['Problem']
export type SavedFilter = Schemas['TaskFilter']
export type TasksMatched = Schemas['TasksMatched']
export type ApiKey = Schemas['APIKey']
export type CreatedKey = Schemas['CreatedKey']
export type KeySpec = Schemas['KeySpec']
export type KeyRole = KeySpec['role']

const refuse: Middleware = {
  async onResponse({ response, schemaPath }) {
    if (response.ok || (schemaPath === '/api/runtime/health' && (await isHealth(response)))) return
    throw await failureOf(response)
  },
  onError({ error }) {
    if (error instanceof DOMException && error.name === 'AbortError') return error
    return new ApiError('', 0, 'unreachable')
  },
}

/** A server without its storage answers 503 with its health. */
async function isHealth(response: Response) {
  const body: Partial<Health> | null = await response
    .clone()
    .json()
    .catch(() => null)
  return response.status === 503 && body?.status === 'degraded'
}

/** Milliseconds that an answer may take to begin: a server that hangs or is cut off never refuses. */
const readLimit = 40_000

export const api = createClient<paths>({
  baseUrl: '/',
  fetch: async (request) => {
    // What is written may have been done although its answer is late: only reading is given up.
    if (request.method !== 'GET') return fetch(request)
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new ApiError('', 0, 'unreachable')), readLimit)
    try {
      return await fetch(request, { signal: AbortSignal.any([request.signal, late.signal]) })
    } finally {
      clearTimeout(timer)
    }
  },
})
api.use(refuse)

/** The body of an answer; failures were thrown before. */
export async function data<T>(answer: Promise<{ data?: T }>): Promise<T> {
  const { data } = await answer
  return data as T
}

export interface Page<T> {
  items: T[]
  /** Cursor of the next page; null on the last one. */
  next: string | null
}

/** A page of a list, with the cursor of the next one out of the Link header. */
export async function page<T>(answer: Promise<{ data?: T[]; response: Response }>): Promise<Page<T>> {
  const { data, response } = await answer
  const next = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('Link') ?? '')?.[1]
  return { items: data ?? [], next: next ? new URL(next, location.origin).searchParams.get('cursor') : null }
}
