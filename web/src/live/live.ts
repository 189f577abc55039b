import type { QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { keys } from '@/api/queries'
import { recentTasks } from '@/api/recent'

/** One entry of the server's stream of changes. */
export interface Change {
  kind: 'task' | 'events' | 'worker' | 'settings' | 'missed'
  task_id?: string
  worker_id?: string
  status?: string
}

export type LiveState = 'connecting' | 'live' | 'reconnecting'

/**
 * The tab's one connection for changes. A change is a hint: whoever hears of one
 * reads again. After a gap everything that is shown is read again.
 */
class Live {
  state: LiveState = 'connecting'
  private source: EventSource | null = null
  private retry: ReturnType<typeof setTimeout> | undefined
  private readonly onState = new Set<() => void>()
  private readonly onChange = new Set<(change: Change) => void>()

  start() {
    this.open()
    addEventListener('online', () => this.state === 'reconnecting' && this.open())
  }

  private open() {
    clearTimeout(this.retry)
    this.source?.close()
    const source = new EventSource('/api/runtime/events')
    this.source = source
    source.onopen = () => {
      const gap = this.state === 'reconnecting'
      this.become('live')
      if (gap) this.publish({ kind: 'missed' })
    }
    source.onerror = () => {
      this.become('reconnecting')
      if (source.readyState !== EventSource.CLOSED) return
      // A proxy's error page or a 401 ends an EventSource for good.
      this.retry = setTimeout(() => this.open(), 2000)
    }
    for (const kind of ['task', 'events', 'worker', 'settings', 'missed']) {
      source.addEventListener(kind, (event: MessageEvent<string>) => this.publish(JSON.parse(event.data) as Change))
    }
    source.addEventListener('resync', () => this.publish({ kind: 'missed' }))
  }

  private become(state: LiveState) {
    if (this.state === state) return
    this.state = state
    for (const listener of this.onState) listener()
  }

  private publish(change: Change) {
    for (const listener of this.onChange) listener(change)
  }

  watchState = (listener: () => void) => {
    this.onState.add(listener)
    return () => this.onState.delete(listener)
  }

  subscribe = (listener: (change: Change) => void) => {
    this.onChange.add(listener)
    return () => {
      this.onChange.delete(listener)
    }
  }
}

export const live = new Live()

export const useLiveState = () => useSyncExternalStore(live.watchState, () => live.state)

/** Calls the listener with each change while the component is shown. */
export function useChanges(listener: (change: Change) => void) {
  useEffect(() => live.subscribe(listener), [listener])
}

const behind: Record<Change['kind'], readonly (readonly string[])[]> = {
  task: [recentTasks.queryKey, keys.stats, keys.workers, keys.leases, keys.contexts, keys.artifacts, keys.audit],
  events: [],
  worker: [keys.workers, keys.stats, keys.audit],
  settings: [keys.config, keys.health, keys.membridge, keys.audit],
  missed: [],
}

/** Reads again what changes touched, at most a few times a second. Lists of tasks follow by themselves. */
export function refreshOnChanges(client: QueryClient) {
  const stale = new Map<string, readonly string[]>()
  let waiting = false
  const flush = () => {
    waiting = false
    for (const key of stale.values()) void client.invalidateQueries({ queryKey: key })
    stale.clear()
  }
  return live.subscribe((change) => {
    if (change.kind === 'missed') {
      void client.invalidateQueries()
      return
    }
    for (const key of behind[change.kind]) stale.set(key.join(), key)
    if (change.kind === 'task' && change.task_id) stale.set(change.task_id, keys.task(change.task_id))
    if (waiting) return
    waiting = true
    setTimeout(flush, 300)
  })
}
