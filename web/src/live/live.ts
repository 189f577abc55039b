import { hashKey, type QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { ApiError } from '@/api/client'
import { idle, keys, problems, taskLists } from '@/api/queries'
import { recentTasks } from '@/api/recent'
import { session } from '@/api/session'
import { readStream } from '@/api/stream'

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
  /** The server wanted a sign-in; until then it is not asked again. */
  private signedOut = false
  /** Whether something was read that may have changed before the stream began. */
  private readBefore = () => false
  private readonly onState = new Set<() => void>()
  private readonly onChange = new Set<(change: Change) => void>()

  /** Begins, or begins anew in another session. */
  start(readBefore = this.readBefore) {
    this.readBefore = readBefore
    this.stop?.abort()
    this.stop = new AbortController()
    this.signedOut = false
    void this.run(this.stop.signal)
  }

  /** Begins anew if the sign-in ran out: it may have been renewed in another tab. */
  signedIn() {
    if (this.signedOut) this.start()
  }

  private async run(signal: AbortSignal) {
    for (let tries = 0; !signal.aborted; tries++) {
      let refused = false
      try {
        await this.read(signal, () => {
          tries = 0
        })
      } catch (error) {
        // The server is away or refuses; either may pass, but without a sign-in nothing changes.
        refused = error instanceof ApiError && error.status === 401
      }
      if (signal.aborted) return
      this.become('reconnecting')
      this.signedOut = refused
      if (refused) return
      await new Promise((resolve) => setTimeout(resolve, Math.min(300 * 2 ** tries, 3000)))
    }
  }

  private async read(signal: AbortSignal, opened: () => void) {
    let rest = ''
    await readStream('/api/runtime/events', 'text/event-stream', signal, {
      opened: () => {
        opened()
        const gap = this.state === 'reconnecting' || this.readBefore()
        this.become('live')
        if (gap) this.publish({ kind: 'missed' })
      },
      text: (text) => {
        const frames = (rest + text).split('\n\n')
        rest = frames.pop() ?? ''
        for (const frame of frames) this.take(frame)
      },
    })
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

/** Milliseconds for which changes are collected before something is read again. */
const atLeast = 300

/** Reads again what changes touched, each part by itself. Lists of tasks follow by themselves. */
export function refreshOnChanges(client: QueryClient) {
  const ofSession = hashKey(session.queryKey)
  const stale = new Set<string>()
  const followed = new Set<string>()
  let again: ReturnType<typeof setTimeout> | undefined
  /**
   * A part that is being read is not read anew, or it might never come to its end where much
   * changes; and a server that answers late is asked half of the time at most.
   */
  const follow = async (key: readonly string[], name: string) => {
    for (let pause = atLeast; ; ) {
      await new Promise((resolve) => setTimeout(resolve, pause))
      if (!stale.has(name)) break
      await idle(client, { queryKey: key })
      stale.delete(name)
      if (key === keys.stats) {
        clearTimeout(again)
        again = setTimeout(() => void client.invalidateQueries({ queryKey: problems.queryKey }), problemsFor)
      }
      const began = performance.now()
      await client.invalidateQueries({ queryKey: key })
      pause = Math.max(atLeast, performance.now() - began)
    }
    followed.delete(name)
  }
  const touch = (key: readonly string[]) => {
    const name = key.join()
    stale.add(name)
    if (followed.has(name)) return
    followed.add(name)
    void follow(key, name)
  }
  client.getQueryCache().subscribe((event) => {
    if (event.type !== 'updated' || event.action.type !== 'success' || event.query.queryHash !== ofSession) return
    if (client.getQueryData(session.queryKey)?.role) live.signedIn()
  })
  return live.subscribe((change) => {
    if (change.kind === 'missed') {
      void client.invalidateQueries()
      return
    }
    // A list that is not shown is read again when it is: those that are follow by themselves.
    if (change.kind === 'task')
      void client.invalidateQueries({ queryKey: taskLists, type: 'inactive', refetchType: 'none' })
    for (const key of behind[change.kind]) touch(key)
    if (change.kind === 'task' && change.task_id) touch(keys.task(change.task_id))
  })
}
