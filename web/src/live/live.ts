import { hashKey, type QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { signedOut } from '@/api/client'
import { idle, keys, problems, taskLists } from '@/api/queries'
import { recentTasks } from '@/api/recent'
import { session } from '@/api/session'
import { notifies } from '@/lib/preferences'
import { type Change, type LiveState, type News, type Order, Source } from './source'

export type { Change, LiveState } from './source'

/** Milliseconds after which a hidden tab wants no changes any more, unless it shows notifications of them. */
const hiddenFor = 5 * 60_000

/** All tabs share a worker with one stream. Where there is none, or it does not load, the tab has a stream of its own. */
function connect(take: (news: News) => void): (order: Order) => void {
  let own: Source | undefined
  const alone = (order: Order) => {
    own ??= new Source(take)
    own[order]()
  }
  if (!('SharedWorker' in globalThis)) return alone
  const worker = new SharedWorker(new URL('./shared.ts', import.meta.url), { type: 'module' })
  let last: Order = 'stop'
  let broken = false
  worker.port.onmessage = ({ data }) => take(data as News)
  worker.onerror = () => {
    broken = true
    alone(last)
  }
  return (order) => {
    last = order
    if (broken) alone(order)
    else worker.port.postMessage(order)
  }
}

/**
 * The tab's part of the stream of changes. A change is a hint: whoever hears of one reads
 * again. After a gap everything that is shown is read again.
 */
class Live {
  state: LiveState = 'connecting'
  /** The server wanted a sign-in; until then it is not asked again. */
  private signedOut = false
  /** The tab is left or was hidden for long, and has no stream until it is shown again. */
  private away = false
  private order: ((order: Order) => void) | undefined
  /** Whether something was read that may have changed before the stream began. */
  private readBefore = () => false
  private readonly onState = new Set<() => void>()
  private readonly onChange = new Set<(change: Change) => void>()

  /** Begins with the page, or begins anew in another session. */
  start(readBefore?: () => boolean, signedOut = false) {
    if (readBefore) this.readBefore = readBefore
    this.signedOut = signedOut
    if (!this.order) {
      this.order = connect((news) => this.take(news))
      this.watchPage()
    }
    if (!signedOut) this.order(readBefore ? 'start' : 'restart')
  }

  /** Begins anew if the sign-in ran out: it may have been renewed in another tab. */
  signedIn() {
    if (!this.signedOut) return
    this.signedOut = false
    this.order?.('start')
  }

  /** A browser keeps pages that were left, with their connections. */
  private watchPage() {
    let timer: ReturnType<typeof setTimeout> | undefined
    const leave = () => {
      this.away = true
      this.order?.('stop')
      this.become('connecting')
    }
    const back = () => {
      clearTimeout(timer)
      if (!this.away) return
      this.away = false
      if (!this.signedOut) this.order?.('start')
    }
    addEventListener('pagehide', leave)
    addEventListener('pageshow', back)
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) back()
      else if (!notifies()) timer = setTimeout(leave, hiddenFor)
    })
  }

  private take(news: News) {
    if ('change' in news) return this.publish(news.change)
    if (this.away) return
    if (news.state === 'signed-out') {
      this.signedOut = true
      signedOut.dispatchEvent(new Event('signed-out'))
      return this.become('reconnecting')
    }
    const before = this.state
    this.become(news.state)
    if (news.state !== 'live' || before === 'live') return
    if (before === 'reconnecting' || this.readBefore()) this.publish({ kind: 'missed' })
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
    return () => {
      this.onState.delete(listener)
    }
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
  task: [
    recentTasks.queryKey,
    keys.stats,
    keys.approvals,
    keys.workers,
    keys.leases,
    keys.contexts,
    keys.artifacts,
    keys.audit,
  ],
  events: [],
  worker: [keys.workers, keys.stats, keys.audit],
  access: [keys.apiKeys, session.queryKey, keys.audit],
  settings: [keys.config, keys.health, keys.membridge, keys.audit],
  schedules: [keys.schedules, keys.audit],
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
    for (const key of behind[change.kind] ?? []) touch(key) // a newer server may name others
    if (change.kind === 'task' && change.task_id) touch(keys.task(change.task_id))
  })
}
