import { screen } from '@testing-library/react'
import { describe, expect, it } from 'vitest'
import { show } from '@/test/show'
import { Snippet } from './snippet'

describe('a snippet', () => {
  it('marks what matches and runs nothing of what it shows', async () => {
    const parts = [
      { text: '<img src=x onerror="alert(1)">', match: false },
      { text: '<b>walrus</b>', match: true },
      { text: ' …', match: false },
    ]
    const { container } = await show(<Snippet snippet={{ in: 'prompt', parts }} />)
    expect(container.querySelector('img, b')).toBeNull()
    expect(screen.getByText('<b>walrus</b>').tagName).toBe('MARK')
    expect(container.textContent).toBe('<img src=x onerror="alert(1)"><b>walrus</b> …')
  })
  it('begins shortly before the first match', async () => {
    const parts = [
      { text: 'a long way before anything matches at all, and then: the ', match: false },
      { text: 'walrus', match: true },
    ]
    const { container } = await show(<Snippet snippet={{ in: 'prompt', parts }} />)
    expect(container.textContent).toBe('… matches at all, and then: the walrus')
  })
  it('says that it is from the output', async () => {
    await show(<Snippet snippet={{ in: 'output', parts: [{ text: 'done', match: true }] }} />, 'uk')
    expect(screen.getByText('результат:')).toBeTruthy()
  })
})
