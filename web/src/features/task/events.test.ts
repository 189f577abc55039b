import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { fakeStreams } from '@/test/stream'
import { follow, type TaskEvent } from './events'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

it('takes a stream without heartbeats for dead, and comes back where it left off', async () => {
  const { asked, streams } = fakeStreams()
  const stop = new AbortController()
  const got: TaskEvent[] = []
  const states: string[] = []
  const sink = { events: (batch: TaskEvent[]) => got.push(...batch), state: (state: string) => states.push(state) }
  const done = follow('a', 0, false, sink, stop.signal)
  await vi.advanceTimersByTimeAsync(0)
  streams[0]?.write('{"seq":7,"type":"text"}\n')
  for (let i = 0; i < 10; i++) {
    await vi.advanceTimersByTimeAsync(15_000)
    streams[0]?.write('\n')
    await vi.advanceTimersByTimeAsync(0)
  }
  expect(states).toEqual(['live'])
  await vi.advanceTimersByTimeAsync(45_000)
  expect(states).toEqual(['live', 'reconnecting', 'live'])
  expect(asked.mock.calls.map(([address]) => address)).toEqual([
    '/api/runtime/llm-tasks/a/events?after=0',
    '/api/runtime/llm-tasks/a/events?after=7',
  ])
  streams[1]?.write('{"seq":8,"type":"completed"}\n')
  await vi.advanceTimersByTimeAsync(0)
  expect(got.map((event) => event.seq)).toEqual([7, 8])
  stop.abort()
  await done
})

it('leaves no listener behind, however often it reconnects', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('refused')))
  const stop = new AbortController()
  const added = vi.spyOn(stop.signal, 'addEventListener')
  const removed = vi.spyOn(stop.signal, 'removeEventListener')
  const left = () => added.mock.calls.length - removed.mock.calls.length
  const done = follow('a', 0, false, { events: () => {}, state: () => {} }, stop.signal)
  await vi.advanceTimersByTimeAsync(120_000)
  expect(added.mock.calls.length).toBeGreaterThan(20)
  expect(left(), 'only the wait that goes on').toBe(1)
  stop.abort()
  await done
  expect(left()).toBe(0)
})
