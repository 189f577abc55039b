import { useQuery } from '@tanstack/react-query'
import { screen } from '@testing-library/react'
import { describe, expect, it, vi } from 'vitest'
import type { Task } from '@/api/client'
import { worker as workerQuery } from '@/api/queries'
import { show } from '@/test/show'
import { Waiting, WorkerOffline } from './waiting'

const worker = vi.hoisted(() => ({ now: {} as unknown }))
vi.mock('@/api/client', async (load) => ({
  ...(await load<object>()),
  api: { GET: () => undefined },
  data: async () => worker.now,
}))

const task = (waiting_for?: Task['waiting_for']) => ({ status: 'queued', waiting_for }) as Task

describe('what a task waits for', () => {
  const full: Task['waiting_for'] = { reason: 'workers_full', sentence: 'full', slots_used: 2, slots: 3 }
  it('is what the server says, with what to do', async () => {
    await show(<Waiting task={task(full)} />)
    expect(screen.getByText(/2 of 3 slots are in use/)).toBeTruthy()
    expect(screen.getByText('It starts when one has a free slot.')).toBeTruthy()
  })
  it('is said in the chosen language', async () => {
    await show(<Waiting task={task(full)} />, 'uk')
    expect(screen.getByText(/зайнято 2 з 3 місць/)).toBeTruthy()
  })
  it('is the sentence of a reason that is not known here', async () => {
    await show(<Waiting task={task({ reason: 'of_the_future' as 'ordered', sentence: 'It waits for spring.' })} />)
    expect(screen.getByText('It waits for spring.')).toBeTruthy()
  })
  it('is why the last attempt is made again, where there was one', async () => {
    const later: Task['waiting_for'] = { reason: 'delayed', sentence: 'later', until: 1_800_000_000_000 }
    const step = (type: string, detail: string) => ({
      kind: 'step' as const,
      key: 1,
      at: 1,
      epoch: 1,
      type,
      data: { detail },
    })
    const released = step(
      'released',
      "Released by alpine-1: the model's provider rate-limits this worker: come back later",
    )
    const { unmount } = await show(<Waiting task={task(later)} steps={[released]} />)
    expect(screen.getByText(/^It is tried again on /)).toBeTruthy()
    expect(
      screen.getByText(
        /^Released by alpine-1: the model's provider rate-limits this worker: come back later\. It starts /,
      ),
    ).toBeTruthy()
    unmount()
    const uk = await show(<Waiting task={task(later)} steps={[released]} />, 'uk')
    expect(
      screen.getByText(/^alpine-1 повернув завдання: постачальник моделі обмежує частоту запитів: come back later/),
    ).toBeTruthy()
    uk.unmount()
    await show(<Waiting task={task(later)} steps={[released, step('requeued', 'Requeued manually')]} />)
    expect(screen.getByText(/^It is scheduled for /)).toBeTruthy()
  })
  it('is nothing until the server has said it', async () => {
    await show(<Waiting task={task()} />)
    expect(screen.queryByRole('status')).toBeNull()
  })
})

describe('a running task whose worker is offline', () => {
  const running = { status: 'running', lease_id: 'l', attempts: 1, max_attempts: 3 } as Task
  const offline = () => ({
    id: 'shed-3',
    status: 'offline',
    last_heartbeat: Date.now() - 120_000,
    leases: [{ id: 'l', expires_at: Date.now() + 185_000 }],
  })
  it('says since when, and when another may take it', async () => {
    worker.now = offline()
    const { unmount } = await show(<WorkerOffline task={running} workerId="shed-3" />)
    expect(await screen.findByText(/^The worker shed-3 is offline; its last heartbeat was \dm ago/)).toBeTruthy()
    expect(screen.getByText(/lease expires in \dm, and the task goes back to the queue/)).toBeTruthy()
    unmount()
    await show(<WorkerOffline task={{ ...running, attempts: 3 }} workerId="shed-3" />, 'uk')
    expect(await screen.findByText(/не вдасться: це остання спроба/)).toBeTruthy()
  })
  it('says nothing while it is online, or of an earlier lease', async () => {
    const Known = () => <p>it is {useQuery(workerQuery('shed-3')).data?.status}</p>
    const both = (
      <>
        <WorkerOffline task={running} workerId="shed-3" />
        <Known />
      </>
    )
    worker.now = { ...offline(), status: 'online' }
    const { unmount } = await show(both)
    await screen.findByText('it is online')
    expect(screen.queryByRole('status')).toBeNull()
    unmount()
    worker.now = { ...offline(), leases: [] }
    await show(both)
    await screen.findByText('it is offline')
    expect(screen.queryByRole('status')).toBeNull()
  })
})
