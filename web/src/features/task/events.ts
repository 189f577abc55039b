import { ApiError } from '@/api/client'
import { readStream } from '@/api/stream'
import { live } from '@/live/live'

/** One entry of a task's stream. */
export interface TaskEvent {
  seq: number
  type: string
  at: number
  epoch: number
  data: Record<string, unknown> | null
}

const ends = new Set(['completed', 'failed', 'dead', 'cancelled'])

/** Whether a task's status, or the type of its last event, is one that it ends with. */
export const isFinal = (status: string | undefined) => status !== undefined && ends.has(status)

export type StreamState = 'loading' | 'live' | 'reconnecting' | 'ended' | 'failed'

export interface StreamSink {
  /** New events in order; none comes twice. */
  events(batch: TaskEvent[]): void
  state(state: StreamState, error?: unknown): void
}

/** Milliseconds from one read of a task's events to the next, and after which they are read although nothing was heard. */
const pace = () => (document.hidden ? 5_000 : 250)
const atLatest = () => (document.hidden ? 60_000 : 5_000)

/**
 * Reads a task's events after the one numbered `after`, and the next ones with each change
 * of the task: a stream of its own would take one of the browser's few connections. It
 * returns when the task has ended (over: it had before) or the signal says so.
 */
export async function follow(
  taskId: string,
  after: number,
  over: boolean,
  sink: StreamSink,
  signal: AbortSignal,
): Promise<void> {
  let last = after
  let lastType = ''
  let tries = 0
  let shown: StreamState | undefined
  const show = (state: StreamState, error?: unknown) => {
    if (state !== shown) sink.state(state, error)
    shown = state
  }
  const changes = listen(taskId, signal)
  while (!signal.aborted) {
    const began = performance.now()
    changes.forget()
    try {
      await readOnce(taskId, last, signal, (batch) => {
        const fresh = batch.filter((event) => event.seq > last)
        const newest = fresh.at(-1)
        if (!newest) return
        last = newest.seq
        lastType = newest.type
        show('live')
        sink.events(fresh)
      })
      if (isFinal(lastType) || (over && lastType === '')) return show('ended')
      tries = 0
      show('live')
      await changes.next(atLatest())
      await new Promise((resolve) => setTimeout(resolve, began + pace() - performance.now()))
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && isRefusal(error)) return show('failed', error)
      show('reconnecting')
      await changes.next(Math.min(250 * 2 ** tries++, 4000))
    }
  }
}

const isRefusal = (error: ApiError) => !error.offline && error.status < 500 && error.status !== 429

/** Hears of changes of a task, and of a connection that breaks. */
function listen(taskId: string, signal: AbortSignal) {
  let heard = false
  let wake = () => {}
  const ring = () => {
    heard = true
    wake()
  }
  const stops = [
    live.watchState(() => {
      if (live.state === 'reconnecting') ring()
    }),
    live.subscribe(({ kind, task_id }) => {
      if (kind === 'missed' || task_id === taskId) ring()
    }),
  ]
  signal.addEventListener('abort', () => {
    for (const stop of stops) stop()
    wake()
  })
  return {
    forget: () => {
      heard = false
    },
    /** Waits for a change since the last that was forgotten, up to `ms`. */
    next: (ms: number) =>
      new Promise<void>((resolve) => {
        if (heard || signal.aborted) return resolve()
        const timer = setTimeout(resolve, ms)
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      }),
  }
}

async function readOnce(taskId: string, after: number, signal: AbortSignal, take: (batch: TaskEvent[]) => void) {
  const address = `/api/runtime/llm-tasks/${encodeURIComponent(taskId)}/events?after=${after}&follow=false`
  let rest = ''
  await readStream(address, 'application/x-ndjson', signal, {
    text: (text) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      const batch = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as TaskEvent)
      if (batch.length > 0) take(batch)
    },
  })
}
