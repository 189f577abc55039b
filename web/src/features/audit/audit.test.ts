import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import en from '@/i18n/en/audit.json'
import { actions, csv } from './audit'

const root = join(import.meta.dirname, '../../../..')

it('every action that the server audits has a name and is in the filter', () => {
  const source = readFileSync(join(root, 'internal/audit/actions.go'), 'utf8')
  const audited = [...source.matchAll(/^\tAction\w+\s*= "(\w+)"/gm)].map((found) => found[1])
  expect(audited.length).toBeGreaterThan(30)
  expect([...actions].sort()).toEqual(audited.sort())
  expect(Object.keys(en.actions).sort()).toEqual(audited)
})

it('a cell of the CSV is no formula, however it begins', () => {
  const entry = {
    timestamp: 0,
    action: 'a',
    entity_type: 't',
    entity_id: '=1',
    actor: '＠eve',
    detail: '\n=2+3',
    seq: 1,
    hash: 'h',
    key_id: 'k',
    address: '::1',
  }
  const lines = csv([entry] as unknown as Parameters<typeof csv>[0])
  for (const cell of ['"h","k","::1"', `"'=1"`, `"'＠eve"`, `"'\n=2+3"`]) expect(lines).toContain(cell)
})
