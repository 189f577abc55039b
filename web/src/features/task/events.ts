import { ApiError } from '@/api/client'
import { readStream } from '@/api/stream'

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

/**
 * Reads a task's stream after the event numbered `after`. After a break it comes
 * back where it left off; it returns when the task has ended (over: it had before)
 * or the signal says so.
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
  while (!signal.aborted) {
    try {
      const opened = () => {
        if (tries > 0) sink.state('live') // which may have no event for a while
      }
      await readOnce(taskId, last, signal, opened, (batch) => {
        tries = 0
        const fresh = batch.filter((event) => event.seq > last)
        const newest = fresh.at(-1)
        if (!newest) return
        last = newest.seq
        lastType = newest.type
        sink.state('live')
        sink.events(fresh)
      })
      // A stream ends by itself after the task's last event, and when the server stops.
      if (isFinal(lastType) || (over && lastType === '')) return sink.state('ended')
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && !error.offline && error.status < 500) return sink.state('failed', error)
    }
    sink.state('reconnecting')
    await pause(Math.min(250 * 2 ** tries++, 4000), signal)
  }
}

async function readOnce(
  taskId: string,
  after: number,
  signal: AbortSignal,
  opened: () => void,
  take: (batch: TaskEvent[]) => void,
) {
  const address = `/api/runtime/llm-tasks/${encodeURIComponent(taskId)}/events?after=${after}`
  let rest = ''
  await readStream(address, 'application/x-ndjson', signal, {
    opened,
    text: (text) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      const batch = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as TaskEvent)
      if (batch.length > 0) take(batch)
    },
  })
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
  })
