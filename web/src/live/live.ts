import type { QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { failureOf } from '@/api/client'
import { keys, problems } from '@/api/queries'
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
 * reads again. After a gap everything that is shown is read again. It is read
 * with fetch, since an EventSource gives up for good at a proxy's error page.
 */
class Live {
  state: LiveState = 'connecting'
  private stop: AbortController | null = null
  /** Whether something was read that may have changed before the stream began. */
  private readBefore = () => false
  private readonly onState = new Set<() => void>()
  private readonly onChange = new Set<(change: Change) => void>()

  /** Begins, or begins anew in another session. */
  start(readBefore = this.readBefore) {
    this.readBefore = readBefore
    this.stop?.abort()
    this.stop = new AbortController()
    void this.run(this.stop.signal)
  }

  private async run(signal: AbortSignal) {
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        await this.read(signal, () => {
          tries = 0
        })
      } catch {
        // The server is away or refuses; either may pass.
      }
      if (signal.aborted) return
      this.become('reconnecting')
      await new Promise((resolve) => setTimeout(resolve, Math.min(300 * 2 ** tries, 3000)))
    }
  }

  private async read(signal: AbortSignal, opened: () => void) {
    const response = await fetch('/api/runtime/events', {
      headers: { Accept: 'text/event-stream' },
      signal,
    })
    if (!response.ok || !response.body) throw await failureOf(response)
    opened()
    const gap = this.state === 'reconnecting' || this.readBefore()
    this.become('live')
    if (gap) this.publish({ kind: 'missed' })
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const frames = (rest + value).split('\n\n')
      rest = frames.pop() ?? ''
      for (const frame of frames) this.take(frame)
    }
  }

  private take(frame: string) {
    if (/^event: resync$/m.test(frame)) return this.publish({ kind: 'missed' })
    const data = /^data: (.*)$/m.exec(frame)?.[1]
    if (data) this.publish(JSON.parse(data) as Change)
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

/** Milliseconds after which a server looks again for what is wrong: until then it may answer as before the change. */
const problemsFor = 2200

/** Reads again what changes touched, at most a few times a second. Lists of tasks follow by themselves. */
export function refreshOnChanges(client: QueryClient) {
  const stale = new Map<string, readonly string[]>()
  let waiting = false
  let again: ReturnType<typeof setTimeout> | undefined
  const flush = () => {
    waiting = false
    if (stale.has(keys.stats.join())) {
      clearTimeout(again)
      again = setTimeout(() => void client.invalidateQueries({ queryKey: problems.queryKey }), problemsFor)
    }
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
