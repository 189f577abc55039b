import { screen } from '@testing-library/react'
import { describe, expect, it } from 'vitest'
import type { Task } from '@/api/client'
import { show } from '@/test/show'
import { Waiting } from './waiting'

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
