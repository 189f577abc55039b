import { expect, it } from 'vitest'
import { rowsOf } from './csv'

it('a table is read with quotes, line ends and separators of all kinds, and no further than asked', () => {
  const want = [
    ['day', 'wait, "s"'],
    ['Mon\nday', ''],
  ]
  expect(rowsOf('\ufeffday,"wait, ""s"""\r\n"Mon\nday",\r\n', 9)).toEqual(want)
  expect(rowsOf('day\twait, "s"\n"Mon\nday"\t', 9)).toEqual(want)
  expect(rowsOf('a;b\n1,5;2\n3;4', 2)).toEqual([
    ['a', 'b'],
    ['1,5', '2'],
  ])
})
