import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import en from '@/i18n/en/audit.json'
import { actions } from './audit'

const root = join(import.meta.dirname, '../../../..')

it('every action that the server audits has a name and is in the filter', () => {
  const source = readdirSync(root)
    .filter((name) => name.endsWith('.go') && !name.endsWith('_test.go'))
    .map((name) => readFileSync(join(root, name), 'utf8'))
    .join('\n')
  const audited = [...source.matchAll(/^\tAction\w+\s*= "(\w+)"/gm)].map((found) => found[1])
  expect(audited.length).toBeGreaterThan(30)
  expect([...actions].sort()).toEqual(audited.sort())
  expect(Object.keys(en.actions).sort()).toEqual(audited)
})
