import { expect, it } from 'vitest'
import { Conversation } from './conversation'
import { linesOf } from './spans'

it('turns have what was used for them, and their tools and subagents below them', () => {
  const run = new Conversation()
  let seq = 0
  const push = (at: number, type: string, data: Record<string, unknown> = {}, epoch = 1) =>
    run.push({ seq: ++seq, type, at, epoch, data })
  const used = (at: number, input: number, tokens: number, epoch = 1) =>
    push(at, 'usage', { input_tokens: input, tokens_used: tokens }, epoch)
  push(0, 'leased')
  push(100, 'session')
  used(200, 10, 11)
  push(210, 'text', { text: 'I look' })
  push(300, 'tool_use', { id: 'a', name: 'Bash', input: {} })
  used(310, 10, 20)
  push(500, 'tool_result', { id: 'a', text: '' })
  used(700, 30, 45)
  push(710, 'tool_use', { id: 'b', name: 'Agent', input: {} })
  used(720, 30, 50)
  push(730, 'tool_result', { id: 'b', text: 'started' })
  used(800, 40, 60) // the subagent's
  push(810, 'tool_use', { id: 'c', name: 'Read', input: {}, parent: 'b' })
  used(820, 40, 65)
  push(900, 'tool_result', { id: 'c', text: '' })
  used(1000, 60, 90)
  push(1010, 'text', { text: 'Done' })
  push(1020, 'completed')
  push(2000, 'leased', {}, 2)
  push(2100, 'session', {}, 2)
  used(2200, 5, 6, 2)
  push(2210, 'text', { text: 'Again' }, 2)
  push(2300, 'tool_use', { id: 'd', name: 'Bash', input: {} }, 2)
  const short = (epoch: number) =>
    linesOf(run, epoch).map((l) => [l.depth, l.of.kind === 'tool' ? l.of.name : 'turn', l.from, l.to, l.tokens])
  expect(short(1)).toEqual([
    [0, 'turn', 100, 300, 20],
    [1, 'Bash', 300, 500, 0],
    [0, 'turn', 500, 710, 30],
    [1, 'Agent', 710, 900, 15],
    [2, 'Read', 810, 900, 0],
    [0, 'turn', 900, 1010, 25],
  ])
  expect(short(2)).toEqual([
    [0, 'turn', 2100, 2300, 6],
    [1, 'Bash', 2300, null, 0],
  ])
})
