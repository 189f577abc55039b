import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { keys } from '@/api/queries'
import { fakeStreams } from '@/test/stream'
import { live, refreshOnChanges } from './live'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

/** Lets what is under way come to its end, without time passing. */
const settled = () => vi.advanceTimersByTimeAsync(0)

it('is live as long as heartbeats come, and reconnects when none does', async () => {
  const { streams } = fakeStreams()
  live.start()
  await settled()
  expect(live.state).toBe('live')
  for (let i = 0; i < 10; i++) {
    await vi.advanceTimersByTimeAsync(15_000)
    streams[0]?.write(': alive\n\n')
    await settled()
  }
  expect(live.state).toBe('live')
  expect(streams).toHaveLength(1)
  const states: string[] = []
  const stop = live.watchState(() => states.push(live.state))
  await vi.advanceTimersByTimeAsync(45_000)
  stop()
  expect(states).toEqual(['reconnecting', 'live'])
  expect(streams[0]?.signal.aborted).toBe(true)
  expect(streams).toHaveLength(2)
})

it('reconnects when the answer itself does not come', async () => {
  const asked = vi.fn(
    (_: string, { signal }: { signal: AbortSignal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
  )
  vi.stubGlobal('fetch', asked)
  live.start()
  await vi.advanceTimersByTimeAsync(45_000)
  expect(live.state).toBe('reconnecting')
  expect(asked).toHaveBeenCalledTimes(2)
})

it('does not ask again without a sign-in until there is one', async () => {
  const refuse = vi.fn(() =>
    Promise.resolve(Response.json({ error: 'Sign in', code: 'unauthorized' }, { status: 401 })),
  )
  vi.stubGlobal('fetch', refuse)
  live.start()
  await vi.advanceTimersByTimeAsync(600_000)
  expect(refuse).toHaveBeenCalledTimes(1)
  expect(live.state).toBe('reconnecting')
  const { streams } = fakeStreams()
  live.signedIn()
  await settled()
  expect(live.state).toBe('live')
  live.signedIn()
  await settled()
  expect(streams, 'a stream that is there stays').toHaveLength(1)
})

it('ends its stream when the page is left or long hidden, and begins a new one when it is shown', async () => {
  const { streams } = fakeStreams()
  live.start()
  await settled()
  const missed = vi.fn()
  const stop = live.subscribe(({ kind }) => kind === 'missed' && missed())
  live.start(() => true)
  let hidden = false
  vi.spyOn(document, 'hidden', 'get').mockImplementation(() => hidden)
  const show = (shown: boolean) => {
    hidden = !shown
    document.dispatchEvent(new Event('visibilitychange'))
  }
  show(false)
  await vi.advanceTimersByTimeAsync(10_000)
  show(true)
  await settled()
  expect(streams.at(-1)?.signal.aborted, 'a short look at another tab').toBe(false)
  const before = streams.length
  show(false)
  for (let minute = 0; minute < 6; minute++) {
    streams.at(-1)?.write(': alive\n\n')
    await vi.advanceTimersByTimeAsync(30_000)
    streams.at(-1)?.write(': alive\n\n')
    await vi.advanceTimersByTimeAsync(30_000)
  }
  expect(streams.at(-1)?.signal.aborted).toBe(true)
  expect(missed).not.toHaveBeenCalled()
  show(true)
  await settled()
  expect(streams).toHaveLength(before + 1)
  expect(live.state).toBe('live')
  expect(missed, 'what changed meanwhile is read').toHaveBeenCalledTimes(1)
  dispatchEvent(new Event('pagehide'))
  expect(streams.at(-1)?.signal.aborted).toBe(true)
  dispatchEvent(new Event('pageshow'))
  await settled()
  expect(streams).toHaveLength(before + 2)
  expect(missed).toHaveBeenCalledTimes(2)
  stop()
})

it('reads a list to its end however often it changes, and leaves a slow server as long alone', async () => {
  const { streams } = fakeStreams()
  live.start()
  await settled()
  const client = new QueryClient()
  const stop = refreshOnChanges(client)
  const read = { begun: 0, ended: 0 }
  let changed = 0
  const queryFn = async () => {
    read.begun++
    const found = changed
    await new Promise((resolve) => setTimeout(resolve, 2000))
    read.ended++
    return found
  }
  const list = new QueryObserver<number>(client, { queryKey: [...keys.audit, 'filtered'], queryFn })
  const leave = list.subscribe(() => undefined)
  for (let i = 0; i < 200; i++) {
    changed++
    streams.at(-1)?.write('data: {"kind":"task","task_id":"a"}\n\n')
    await vi.advanceTimersByTimeAsync(100)
  }
  // Twenty seconds: a read of two, a pause of two, and so on.
  expect(read.begun).toBeGreaterThan(3)
  expect(read.begun).toBeLessThanOrEqual(6)
  expect(read.ended).toBeGreaterThanOrEqual(read.begun - 1)
  await vi.advanceTimersByTimeAsync(7000)
  expect(list.getCurrentResult().data, 'the last change is in it').toBe(changed)
  expect(read.ended).toBe(read.begun)
  leave()
  stop()
})
