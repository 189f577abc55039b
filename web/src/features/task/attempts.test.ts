import { describe, expect, it } from 'vitest'
import { rowsOf } from './attempts'
import { Conversation } from './conversation'

function itemsOf(...events: [string, number, Record<string, unknown>?][]) {
  const conversation = new Conversation()
  for (const [i, [type, epoch, data = {}]] of events.entries())
    conversation.push({ seq: i + 1, type, at: 1000 * (i + 1), epoch, data })
  return conversation.items
}

const names = (rows: ReturnType<typeof rowsOf>) =>
  rows.map((row) => (row.kind === 'step' ? row.type : row.kind === 'attempt' ? `${row.n} ${row.worker}` : row.kind))

describe('attempts', () => {
  const twice = itemsOf(
    ['leased', 1, { worker_id: 'pi' }],
    ['text', 1, { text: 'one' }],
    ['retried', 1],
    ['leased', 2, { worker_id: 'alpine' }],
    ['text', 2, { text: 'two' }],
  )
  it('of which there is one are no groups', () => {
    expect(names(rowsOf(twice.slice(0, 3), new Map()))).toEqual(['leased', 'text', 'retried'])
  })
  it('are groups, of which the newest is open; each says how it ended', () => {
    const rows = rowsOf(twice, new Map())
    expect(names(rows)).toEqual(['1 pi', '2 alpine', 'leased', 'text'])
    expect(rows[0]).toMatchObject({ open: false, from: 1000, end: { type: 'retried', at: 3000 } })
    expect(rows[1]).toMatchObject({ open: true, end: null })
  })
  it('open and close as chosen', () => {
    const chosen = new Map([
      [1, true],
      [2, false],
    ])
    expect(names(rowsOf(twice, chosen))).toEqual(['1 pi', 'leased', 'text', 'retried', '2 alpine'])
  })
})
