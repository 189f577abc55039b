import { useEffect, useRef, useState } from 'react'
import { Conversation } from './conversation'
import { follow, type StreamState, type TaskEvent } from './events'

export interface Stream {
  conversation: Conversation
  state: StreamState
  error: unknown
  /** Grows with every change of the conversation. */
  version: number
}

/** Follows a task's events. It goes on when a task that had ended is put back in the queue. */
export function useStream(taskId: string, over: boolean): Stream {
  const box = useRef<{ id: string; conversation: Conversation }>({ id: '', conversation: new Conversation() })
  const [shown, setShown] = useState<{ state: StreamState; error: unknown; version: number }>({
    state: 'loading',
    error: undefined,
    version: 0,
  })

  useEffect(() => {
    if (box.current.id !== taskId) box.current = { id: taskId, conversation: new Conversation() }
    const { conversation } = box.current
    const stop = new AbortController()
    let waiting: TaskEvent[] = []
    let state: StreamState = conversation.events ? 'live' : 'loading'
    let error: unknown
    let frame = 0
    // However fast events come, the page is drawn once a frame.
    const draw = () => {
      frame = 0
      for (const event of waiting) conversation.push(event)
      waiting = []
      setShown((old) => ({ state, error, version: old.version + 1 }))
    }
    const soon = () => {
      // A hidden tab has no frames; it must not pile events up either.
      if (document.hidden) draw()
      else if (frame === 0) frame = requestAnimationFrame(draw)
    }
    void follow(
      taskId,
      conversation.lastSeq,
      over,
      {
        events: (batch) => {
          waiting = waiting.concat(batch)
          soon()
        },
        state: (next, why) => {
          state = next
          error = why
          soon()
        },
      },
      stop.signal,
    )
    return () => {
      stop.abort()
      cancelAnimationFrame(frame)
      for (const event of waiting) conversation.push(event)
    }
  }, [taskId, over])

  return { conversation: box.current.conversation, ...shown }
}
