import { describe, expect, it } from 'vitest'
import { inFolder } from './paths'

describe('a path', () => {
  it('is shown as it is in the folder of the run', () => {
    expect(inFolder('/work/ctx/src/a.go', '/work/ctx')).toBe('src/a.go')
    expect(inFolder('/work/ctx/src/a.go', '/work/ctx/')).toBe('src/a.go')
    expect(inFolder('/work/ctx', '/work/ctx')).toBe('.')
  })
  it('that leads elsewhere stays whole', () => {
    expect(inFolder('/work/ctx-2/a.go', '/work/ctx')).toBe('/work/ctx-2/a.go')
    expect(inFolder('/etc/hosts', '')).toBe('/etc/hosts')
    expect(inFolder('/etc/hosts', '/')).toBe('/etc/hosts')
  })
})
