import { ApiError } from '@/api/failure'
import { readStream } from '@/api/stream'

/** One entry of the server's stream of changes. */
export interface Change {
  kind: 'task' | 'events' | 'worker' | 'settings' | 'access' | 'schedules' | 'missed'
  task_id?: string
  worker_id?: string
  status?: string
}

export type LiveState = 'connecting' | 'live' | 'reconnecting'

/** What a source says to its tabs. Without a sign-in it has ended. */
export type News = { state: LiveState | 'signed-out' } | { change: Change }

/** What a tab asks of a source: the stream, a new one for another session, or no more of it. */
export type Order = 'start' | 'restart' | 'stop'

/**
 * Reads the server's stream of changes, again and again. It is read with fetch, since an
 * EventSource gives up for good at a proxy's error page.
 */
export class Source {
  state: LiveState | 'signed-out' = 'connecting'
  private running: AbortController | null = null

  constructor(private readonly say: (news: News) => void) {}

  start() {
    if (this.running) return this.say({ state: this.state })
    this.running = new AbortController()
    this.become('connecting')
    void this.run(this.running.signal)
  }

  restart() {
    this.stop()
    this.start()
  }

  stop() {
    this.running?.abort()
    this.running = null
  }

  private async run(signal: AbortSignal) {
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        await this.read(signal, () => {
          tries = 0
        })
      } catch (error) {
        // The server is away or refuses; either may pass, but without a sign-in nothing changes.
        if (!signal.aborted && error instanceof ApiError && error.status === 401) {
          this.stop()
          return this.become('signed-out')
        }
      }
      if (signal.aborted) return
      this.become('reconnecting')
      await new Promise((resolve) => setTimeout(resolve, Math.min(300 * 2 ** tries, 3000)))
    }
  }

  private async read(signal: AbortSignal, opened: () => void) {
    let rest = ''
    await readStream('/api/runtime/events', 'text/event-stream', signal, {
      opened: () => {
        opened()
        this.become('live')
      },
      text: (text) => {
        const frames = (rest + text).split('\n\n')
        rest = frames.pop() ?? ''
        for (const frame of frames) this.take(frame)
      },
    })
  }

  private take(frame: string) {
    if (/^event: resync$/m.test(frame)) return this.say({ change: { kind: 'missed' } })
    const data = /^data: (.*)$/m.exec(frame)?.[1]
    if (data) this.say({ change: JSON.parse(data) as Change })
  }

  private become(state: LiveState | 'signed-out') {
    this.state = state
    this.say({ state })
  }
}
