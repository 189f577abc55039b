import { screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it } from 'vitest'
import { show } from '@/test/show'
import { Conversation, type Tool } from './conversation'
import type { TaskEvent } from './events'
import { ToolCard } from './tool-card'

function conversationOf(...events: [string, Record<string, unknown>][]) {
  const conversation = new Conversation()
  for (const [i, [type, data]] of events.entries())
    conversation.push({ seq: i + 1, type, at: 1000 * (i + 1), epoch: 1, data })
  return conversation
}

describe('a conversation', () => {
  it('takes each event once and in order', () => {
    const conversation = conversationOf(['text', { text: 'one' }], ['text', { text: 'two' }])
    const again: TaskEvent = { seq: 2, type: 'text', at: 1, epoch: 1, data: { text: 'two again' } }
    conversation.push(again)
    expect(conversation.items).toMatchObject([{ text: 'one' }, { text: 'two' }])
    expect(conversation.events).toBe(2)
  })
  it('joins an answer to its call, and replaces the call that changed alone', () => {
    const conversation = conversationOf(
      ['tool_use', { id: 'a', name: 'Bash', input: { command: 'ls' } }],
      ['tool_use', { id: 'b', name: 'Read', input: { file_path: 'x' } }],
    )
    const [a, b] = conversation.items
    conversation.push({ seq: 3, type: 'tool_result', at: 5000, epoch: 1, data: { id: 'a', text: 'x', is_error: true } })
    expect(conversation.items[0]).toMatchObject({ name: 'Bash', result: { text: 'x', failed: true } })
    expect(conversation.items[0]).not.toBe(a)
    expect(conversation.items[1]).toBe(b)
  })
  it('nests what a subagent did under its call, at any depth', () => {
    const conversation = conversationOf(
      ['tool_use', { id: 'a', name: 'Task', input: {} }],
      ['tool_use', { id: 'b', name: 'Task', input: {}, parent: 'a' }],
      ['text', { text: 'deep', parent: 'b' }],
      ['text', { text: 'of a parent that nobody knows', parent: 'zzz' }],
    )
    expect(conversation.items).toMatchObject([
      { id: 'a', children: [{ id: 'b', children: [{ text: 'deep' }] }] },
      { text: 'of a parent that nobody knows' },
    ])
  })
  it('keeps the newest usage and takes harm from nothing malformed', () => {
    const conversation = conversationOf(
      ['usage', { tokens_used: 7, input_tokens: 5, output_tokens: 2 }],
      ['tool_result', { id: 'of nobody' }],
      ['tool_use', { input: 'no object' }],
      ['of_the_future', { text: 1 }],
    )
    expect(conversation.usage).toEqual({ tokens: 7, input: 5, output: 2, cached: 0, cost: null })
    expect(conversation.items).toMatchObject([{ kind: 'tool', name: '', result: null }])
  })
})

const call = (more: Partial<Tool>): Tool => ({
  kind: 'tool',
  key: 1,
  at: 1000,
  epoch: 1,
  folder: '',
  id: 'a',
  name: 'Bash',
  input: { command: 'ls -la' },
  result: { text: 'total 0', failed: false, at: 1250, truncated: false },
  children: [],
  ...more,
})

describe('a tool call', () => {
  it('is a line with its command and duration, and opens to its output', async () => {
    await show(<ToolCard tool={call({})} over />)
    const line = screen.getByRole('button', { name: /^Bash\s*ls -la\s*250ms/ })
    expect(screen.queryByText('total 0')).toBeNull()
    await userEvent.click(line)
    expect(screen.getByText('total 0')).toBeTruthy()
  })
  it('that failed is open, says so and can be closed', async () => {
    const failed = call({ result: { text: 'no such file', failed: true, at: 1250, truncated: false } })
    await show(<ToolCard tool={failed} over />)
    const line = screen.getByRole('button', { name: /Failed/ })
    expect(screen.getByText('no such file')).toBeTruthy()
    await userEvent.click(line)
    expect(screen.queryByText('no such file')).toBeNull()
    expect(line.getAttribute('aria-expanded')).toBe('false')
  })
  it('without an answer says so once the run is over', async () => {
    await show(<ToolCard tool={call({ result: null })} over />)
    expect(screen.getByText('no answer')).toBeTruthy()
  })
  it('that edits shows what it adds and removes at once', async () => {
    const edit = call({ name: 'Edit', input: { file_path: 'a.go', old_string: 'one\ntwo', new_string: 'one\n2\n3' } })
    await show(<ToolCard tool={edit} over />)
    expect(screen.getByText('+2')).toBeTruthy()
    expect(screen.getByText('−1')).toBeTruthy()
  })
})
