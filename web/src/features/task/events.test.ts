import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { live } from '@/live/live'
import { fakeStreams } from '@/test/stream'
import { follow, type TaskEvent } from './events'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

it('reads again with each change of the task, where it left off, and holds no connection meanwhile', async () => {
  const { asked, streams } = fakeStreams()
  live.start()
  const stop = new AbortController()
  const got: TaskEvent[] = []
  const states: string[] = []
  const sink = { events: (batch: TaskEvent[]) => got.push(...batch), state: (state: string) => states.push(state) }
  const done = follow('a', 0, false, sink, stop.signal)
  await vi.advanceTimersByTimeAsync(0)
  streams[1]?.write('{"seq":7,"type":"text"}\n')
  streams[1]?.end()
  await vi.advanceTimersByTimeAsync(2000)
  expect(streams, 'nothing is read while nothing changes').toHaveLength(2)
  streams[0]?.write('data: {"kind":"task","task_id":"b"}\n\n')
  await vi.advanceTimersByTimeAsync(0)
  expect(streams, 'another task').toHaveLength(2)
  streams[0]?.write('data: {"kind":"events","task_id":"a"}\n\n')
  await vi.advanceTimersByTimeAsync(0)
  streams[0]?.write('data: {"kind":"task","task_id":"a"}\n\n')
  streams[2]?.write('{"seq":8,"type":"text"}\n')
  streams[2]?.end()
  await vi.advanceTimersByTimeAsync(300)
  streams[3]?.write('{"seq":9,"type":"completed"}\n')
  streams[3]?.end()
  await done
  expect(asked.mock.calls.slice(1).map(([address]) => address.split('?')[1])).toEqual([
    'after=0&follow=false',
    'after=7&follow=false',
    'after=8&follow=false',
  ])
  expect(got.map((event) => event.seq)).toEqual([7, 8, 9])
  expect(states).toEqual(['live', 'ended'])
  stop.abort()
})

it('says that the server is away at once, and reads on when it is back', async () => {
  const { streams } = fakeStreams()
  live.start()
  const stop = new AbortController()
  const states: string[] = []
  const done = follow('a', 0, false, { events: () => {}, state: (state) => states.push(state) }, stop.signal)
  await vi.advanceTimersByTimeAsync(0)
  streams[1]?.end()
  await vi.advanceTimersByTimeAsync(1000)
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('refused')))
  streams[0]?.end()
  await vi.advanceTimersByTimeAsync(300)
  expect(states).toEqual(['live', 'reconnecting'])
  const back = fakeStreams()
  await vi.advanceTimersByTimeAsync(10_000)
  for (const stream of back.streams) stream.end()
  await vi.advanceTimersByTimeAsync(5000)
  expect(states.slice(0, 3)).toEqual(['live', 'reconnecting', 'live'])
  stop.abort()
  await done
})

it('leaves no listener behind, however often it reconnects', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('refused')))
  const stop = new AbortController()
  const added = vi.spyOn(stop.signal, 'addEventListener')
  const removed = vi.spyOn(stop.signal, 'removeEventListener')
  const subscribed = vi.spyOn(live, 'subscribe')
  const done = follow('a', 0, false, { events: () => {}, state: () => {} }, stop.signal)
  await vi.advanceTimersByTimeAsync(120_000)
  expect(added.mock.calls.length - removed.mock.calls.length).toBeLessThanOrEqual(2)
  expect(subscribed).toHaveBeenCalledTimes(1)
  stop.abort()
  await done
})
