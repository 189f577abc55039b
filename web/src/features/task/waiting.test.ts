import { describe, expect, it } from 'vitest'
import type { Task } from '@/api/client'
import { waitOf } from './waiting'

const task = (waiting_for?: Task['waiting_for']) =>
  ({ status: 'queued', run_at: 0, labels: [], waiting_for }) as unknown as Task

describe('what a task waits for', () => {
  it('is what the server says', () => {
    const told = task({ reason: 'workers_full', sentence: 'full', slots_used: 2, slots: 2 })
    expect(waitOf(told, [], 0)).toMatchObject({ why: 'full', used: 2, slots: 2 })
  })
  it('is guessed when the server does not say', () => {
    expect(waitOf(task(), [], 0).why).toBe('noWorker')
  })
  it('is the sentence of a reason that is not known here', () => {
    const told = task({ reason: 'of_the_future' as 'ordered', sentence: 'It waits.' })
    expect(waitOf(told, [], 0)).toMatchObject({ why: undefined, sentence: 'It waits.' })
  })
})
