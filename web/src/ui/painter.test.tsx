import { render } from '@testing-library/react'
import { describe, expect, it } from 'vitest'
import { paint } from './painter'

describe('code', () => {
  it('has its words by their kind, also in a text over several lines', () => {
    const lines = paint('x := `a\n<b>`\nreturn', 'go') ?? []
    const { container } = render(lines.map((line, i) => <p key={String(i)}>{line}</p>))
    expect([...container.querySelectorAll('p')].map((p) => p.textContent)).toEqual(['x := `a', '<b>`', 'return'])
    expect([...container.querySelectorAll('.hljs-string')].map((s) => s.textContent)).toEqual(['`a', '<b>`'])
    expect(container.querySelector('.hljs-keyword')?.textContent).toBe('return')
  })
  it('of a language that is not known stays as it is', () => {
    expect(paint('x', 'klingon')).toBeUndefined()
  })
})
