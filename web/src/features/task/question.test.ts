import { expect, it } from 'vitest'
import { questionOf } from './question'

it.each([
  ['I can do either.\n\nWhich file should I change?', 'Which file should I change?'],
  ['**Shall I go on?**', 'Shall I go on?'],
  ['- A\n- Або `B`?\n', 'Або B?'],
  ['Is it done? Yes.', ''],
  ['```\na ? b : c\n```', ''],
  ['', ''],
  [null, ''],
])('the question in %j is %j', (output, question) => {
  expect(questionOf(output)).toBe(question)
})
