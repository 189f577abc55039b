import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { actions } from './audit'

it('the filter has every action that the server audits', () => {
  const source = readFileSync(join(import.meta.dirname, '../../../../audit.go'), 'utf8')
  const audited = [...source.matchAll(/^\tAction\w+\s*= "(\w+)"/gm)].map((found) => found[1])
  expect(audited.length).toBeGreaterThan(20)
  expect([...actions].sort()).toEqual(audited.sort())
})
