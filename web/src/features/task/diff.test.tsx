import { screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it } from 'vitest'
import { show } from '@/test/show'
import { Diff } from './diff'

const rows = (box: HTMLElement) => [...box.querySelectorAll('pre > div')].map((row) => row.textContent)

describe('a diff', () => {
  it('marks each line as kept, removed or added', async () => {
    const { container } = await show(<Diff before={'a\nb\nc\n'} after={'a\nB\nc\n'} />)
    expect(rows(container)).toEqual([' a', '-b', '+B', ' c'])
  })
  it('of a new file is all added, of an emptied one all removed', async () => {
    expect(rows((await show(<Diff before="" after={'x\ny'} />)).container)).toEqual(['+x', '+y'])
    expect(rows((await show(<Diff before={'x'} after="" />)).container)).toContain('-x')
  })
  it('shows forty lines and the rest on demand', async () => {
    const long = Array.from({ length: 100 }, (_, i) => `line ${i}`).join('\n')
    const { container } = await show(<Diff before="" after={long} />)
    expect(rows(container)).toHaveLength(40)
    await userEvent.click(screen.getByRole('button', { name: /60/ }))
    expect(rows(container)).toHaveLength(100)
  })
  it('shows hostile text as text', async () => {
    const { container } = await show(<Diff before="" after={'<img src=x onerror=alert(1)>'} />)
    expect(container.querySelector('img')).toBeNull()
    expect(rows(container)).toEqual(['+<img src=x onerror=alert(1)>'])
  })
})
