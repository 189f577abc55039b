import { expect, test } from 'vitest'
import { fileName } from './file-name'

test('names of attached files are ones that the server accepts, and differ', () => {
  const accepted = (name: string) => fileName(name, [])
  expect(['sales.csv', 'Знімок 1.png', 'a.tar.gz'].map(accepted)).toEqual(['sales.csv', 'Знімок 1.png', 'a.tar.gz'])
  expect(['.env', '-rf', '~x', ' x', 'CLAUDE.md', 'claude.local.MD'].map(accepted)).toEqual([
    '_.env',
    '_-rf',
    '_~x',
    '_ x',
    '_CLAUDE.md',
    '_claude.local.MD',
  ])
  expect(['a\\b"c\n.txt', '', '\ud800.txt'].map(accepted)).toEqual(['a_b_c_.txt', 'file', '_.txt'])
  expect(new TextEncoder().encode(accepted(`${'ї'.repeat(150)}.png`)).length).toBe(190)
  expect(accepted(`${'ї'.repeat(150)}.png`)).toMatch(/^ї+\.png$/)
  expect(fileName('image.png', ['image.png'])).toBe('image-2.png')
  expect(fileName('image.png', ['Image.PNG', 'image-2.png'])).toBe('image-3.png')
  expect(fileName('notes', ['notes'])).toBe('notes-2')
})
