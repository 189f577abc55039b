import i18next from 'i18next'
import type { ApiError } from '@/api/client'

/**
 * What the server says, in a language that it does not speak: its sentences by their
 * English form, with {{values}} in it, and its codes for those that are not known.
 * In English, only the sentences with a code or the name of a field in them.
 */
export interface ServerTexts {
  codes: Record<string, string>
  sentences: Record<string, string>
}

interface Form {
  is: RegExp
  names: string[]
  text: string
}

/** What a value may be, by its name; anything where it is not told. */
const shapes: Record<string, string> = {
  ...Object.fromEntries(['n', 'attempt', 'max', 'least', 'most', 'all', 'bytes'].map((name) => [name, '(\\d+)'])),
  field: '(\\S+)',
  node: '(\\S+)',
  role: '(admin|client|worker|approver|viewer)',
}
const languages = new Map<string, { codes: Record<string, string>; exact: Map<string, string>; forms: Form[] }>()

export function learn(language: string, { codes, sentences }: ServerTexts) {
  const exact = new Map(Object.entries(sentences).filter(([english]) => !english.includes('{{')))
  const forms = Object.entries(sentences)
    .filter(([english]) => !exact.has(english))
    // The form with the most words of its own is the one that is meant.
    .sort(([a], [b]) => plain(b).length - plain(a).length)
    .map(([english, text]) => formOf(english, text))
  languages.set(language, { codes, exact, forms })
}

const plain = (english: string) => english.replace(/\{\{\w+\}\}/g, '')

function formOf(english: string, text: string): Form {
  const names: string[] = []
  const pattern = english.split(/\{\{(\w+)\}\}/).map((part, i) => {
    if (i % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    names.push(part)
    return shapes[part] ?? '(.+?)'
  })
  return { is: new RegExp(`^${pattern.join('')}$`, 's'), names, text }
}

/** Longer texts are no sentences of ours: claude's output, an answer of the provider. */
const longest = 4096

/**
 * A sentence of the server's or a worker's in the chosen language; as it is where it is
 * not known, such as what a person wrote. What a worker appends after a colon is quoted
 * from claude, the provider or the system, and stays as it was.
 */
export function say(sentence: string): string {
  const language = languages.get(i18next.language)
  if (!language || sentence.length > longest) return sentence
  const whole = language.exact.get(sentence)
  if (whole !== undefined) return whole
  for (const form of language.forms) {
    const found = form.is.exec(sentence)
    if (!found) continue
    const values = new Map(form.names.map((name, i) => [name, wordOf(name, found[i + 1] ?? '')]))
    return form.text.replace(/\{\{(\w+)\}\}/g, (_, name) => values.get(name) ?? '')
  }
  const colon = sentence.indexOf(': ')
  if (colon < 0) return sentence
  const head = sentence.slice(0, colon)
  const said = say(head)
  return said === head ? sentence : said + sentence.slice(colon)
}

/** Values that are words of the server's, too. */
function wordOf(name: string, value: string): string {
  const key = {
    status: i18next.exists(`ui.status.${value}`) ? `ui.status.${value}` : `approvals.is.${value}`,
    role: `keys.is.${value}`,
    online: `ui.worker.${value}`,
    class: `task.why.${value}.what`,
  }[name]
  if (key) return i18next.exists(key) ? i18next.t(key as 'ui.status.queued') : value
  if (name === 'words') return value.replaceAll("' or '", '», «')
  return name === 'said' || name === 'whose' ? say(value) : value
}

/** What a refusal says: its sentence, or what its code stands for where that is all that is known. */
export function sayError({ message, code }: ApiError): string {
  const said = say(message)
  const known = languages.get(i18next.language)?.codes[code]
  return said === message && known !== undefined ? `${known}: ${message}` : said
}
