import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { ApiError } from '@/api/client'
import { errorClasses } from '@/features/task/error-classes'
import { setLanguage, startI18n } from '.'
import { say, sayError } from './said'
import server from './uk/server.json'

const root = join(import.meta.dirname, '../../..')

/** Where what the server says is written: not what only workers, tools and files of the audit say. */
const places = [
  '',
  'internal/auth',
  'internal/content',
  'internal/dispatch',
  'internal/guard',
  'internal/httpapi',
  'internal/lifecycle',
  'internal/schedule',
  'internal/search',
  'internal/store',
  'internal/store/postgres',
  'internal/store/sqlite',
  'internal/transcripts',
  'internal/membridge/mbclient',
  'internal/membridge/registry',
]
const source = places
  .flatMap((place) => readdirSync(join(root, place)).map((name) => join(root, place, name)))
  .filter((path) => path.endsWith('.go') && !path.endsWith('_test.go'))
  .map((path) => readFileSync(path, 'utf8'))
  .join('\n')

const found = (pattern: RegExp) => [...source.matchAll(pattern)].map((m) => m[1] ?? '')

/** The sentences of the source, with something in the place of each value. */
function sentences(): string[] {
  const verbs: Record<string, string> = { s: 'some', d: '7', q: '"some"', v: 'some' }
  const text = /"((?:[^"\\]|\\.)+)"(\s*\+)?/.source
  const written = [
    ...source.matchAll(new RegExp(`\\b(?:Conflict|Invalid)\\((?:fmt\\.Sprintf\\()?${text}`, 'g')),
    ...source.matchAll(new RegExp(`\\b(?:Message|Detail):\\s+(?:fmt\\.Sprintf\\()?${text}`, 'g')),
    ...source.matchAll(new RegExp(`\\bmessage = ${text}`, 'g')),
    ...source.matchAll(new RegExp(`\\bunavailable\\(${text}`, 'g')),
    ...source.matchAll(new RegExp(`\\bu\\.refuse\\([^"\\n]*${text}`, 'g')),
    ...source.matchAll(new RegExp(`\\bDetail = [^\\n]*?${text}`, 'g')),
    ...source.matchAll(new RegExp(`\\bupstream\\([\\w.]+, (?:fmt\\.Sprintf\\()?${text}`, 'g')),
    ...source.matchAll(new RegExp(`\\breturn (?:fmt\\.Sprintf\\()?(?="Membridge)${text}`, 'g')),
  ]
  return written.map(([, literal = '', more]) =>
    (literal + (more ? 'some' : '')).replaceAll('\\"', '"').replace(/%(s|d|q|v)/g, (_, verb) => verbs[verb] ?? ''),
  )
}

/** What is put together of parts that are not in one place of the source. */
const composed = [
  'Invalid request: prompt must not be empty',
  'Invalid request: policy.timeout_sec must be between 1 and 86400',
  'The time series is not available: to must be after from',
  "must be 'text' or 'json'",
  'The body is not valid JSON (near byte 7)',
  'Unknown field dryrun; the known ones are dry_run, status',
  'Unknown field dryrun; this request has none',
  'Unknown query parameter dryrun; the known ones are lease_id',
  'Unknown query parameter dryrun; this request has none',
  'must have at most 64 characters',
  'must have at most 64 entries',
  'must not be negative',
  'must be at least 1',
  'alpine-1 leads handbook',
  'alpine-1 is to push the memory of handbook',
  'Outcome unknown: membridge did not answer whether alpine-1 is to pull the memory of handbook',
  'worker key pi in the attic',
  'Signed in as admin',
  'Session of ann',
  'Cancelled 5 of 6 tasks with status "queued"',
  'Requeued 5 of 6 tasks with status "failed", text "a"',
  'Added out/a.txt to task 01a200c7-0126-7c60-9827-033779e6ccd8',
  'Cancelled while waiting',
  'Cancelled; alpine-1 stopped reporting',
  'Contact again',
  'Undrained',
  'Too many requests: the limit for attempts to sign in from this address is 20 a minute; try again later',
  "this turn is not part of the context's conversation: its completion came too late",
  "this turn is not part of the context's conversation: its upload is missing in the server's storage",
  "what this task made of the context's working folder is not kept: its completion came too late",
  "what this task made of the context's working folder is not kept: its upload is missing in the server's storage",
]

/** Parts that never come alone, and the words of membridge's that are not ours to know. */
const parts =
  /^(some \d+ of \d+ tasks with some|(Invalid request|The request is invalid): some|The time series is not available: some|The body is not valid JSON \(near byte some|The body is larger than the some|The queue is full: some|Too many requests: the limit for some|Too many some|Unknown some|.* in X-MEMBRIDGE-TOKEN.*|must be some|this turn is not part of .*: some|what this task made of .*: some)$/

/** Where what a worker says of a task is written. */
const workerSource = ['internal/claude', 'internal/worker']
  .flatMap((place) => readdirSync(join(root, place)).map((name) => join(root, place, name)))
  .filter((path) => path.endsWith('.go') && !path.endsWith('_test.go'))
  .map((path) => readFileSync(path, 'utf8'))
  .join('\n')

/** What an expression of the source comes to, with something in the place of each value, and evidence after a colon. */
function textOf(expression: string): string {
  const format = /^fmt\.Sprintf\("((?:[^"\\]|\\.)*)"/.exec(expression)
  if (format) {
    const verbs: Record<string, string> = { s: 'some', d: '7', q: '"some"', v: 'some' }
    return (format[1] ?? '')
      .replace(/\)%s$/, '): some')
      .replace(/kept%s$/, 'kept')
      .replace(/%(s|d|q|v)/g, (_, verb) => verbs[verb] ?? '')
  }
  return (expression.match(/"(?:[^"\\]|\\.)*"|[^"+]+(?:\([^)]*\))?/g) ?? [])
    .map((part) => part.trim())
    .map((part) =>
      part.startsWith('"')
        ? JSON.parse(part)
        : /^(quote|evidence)\(/.test(part)
          ? ': some'
          : /^exitText\(/.test(part)
            ? 'claude ended with code 7'
            : part === ''
              ? ''
              : 'some',
    )
    .join('')
}

/** What a worker says of its tasks: warnings, failures, why it released them, why files were not used. */
function workerSentences(): string[] {
  const patterns = [
    /\.warn\("\w+", ([^\n]+?)\)?$/gm,
    /\bfailed\(bloom\.Class\w+, ([^\n]+)\)$/gm,
    /\bfailure\(bloom\.Class\w+, ([^\n]+?), (?:true|false)\)/g,
    /\bmessage :?= ([^\n]+)$/gm,
    /\bErrorMessage = new\(([^\n]+)\)$/gm,
    /"text": *([^\n]+?)\}\)$/gm,
    /\bplainReason\(([^\n]+?)\)\)?$/gm,
    /\b(?:releaseLease\(got|release\(k\.lease), ([^\n]+?), /g,
    /^(?:const )?\t?(?:stateFailedReason|notLoggedIn|contextTooLong) *= ([^\n]+)$/gm,
    /^\t?(?:errHintPath|errBinary|errTooMany|errSilent|errProtocol|errToolOffered|errToolUsed) *= errors\.New\(([^\n]+)\)$/gm,
    /skippedHint\{\w+, ("[^\n]+")\}/g,
    /case errors\.Is\(err, [\w.]+\):\n\t+return ([^\n]+)$/gm,
  ]
  return patterns.flatMap((pattern) => [...workerSource.matchAll(pattern)].map((m) => textOf(m[1] ?? '')))
}

describe('what a worker says', () => {
  beforeAll(startI18n)

  it('is in Ukrainian, too', async () => {
    await setLanguage('uk', false)
    const more = ['refused: it cannot be read inside the working folder', 'not a regular file']
    const all = [...new Set([...workerSentences(), ...more])].filter((sentence) =>
      /\p{L}{2,} \p{L}{2,}/u.test(sentence),
    )
    expect(all.length).toBeGreaterThan(60)
    expect(all.filter((sentence) => say(sentence) === sentence)).toEqual([])
  })

  it('keeps what it quotes', async () => {
    await setLanguage('uk', false)
    expect(say("the model's API refused the request (400): prompt: too odd")).toBe(
      'API моделі відхилив запит (400): prompt: too odd',
    )
    expect(say('Released by alpine-1: the worker is stopping')).toBe(
      'alpine-1 повернув завдання: виконавець зупиняється',
    )
    expect(say('out/a.bin was not uploaded: its 9 bytes are more than the 7 that this worker uploads')).toBe(
      'out/a.bin не надіслано: його розмір 9 байтів більший за 7, які надсилає цей виконавець',
    )
    const long = `the model's API failed (500): ${'x'.repeat(5000)}`
    expect(say(long)).toBe(long)
  })
})

describe('what the server says', () => {
  beforeAll(startI18n)

  it('has its sentences in Ukrainian', async () => {
    await setLanguage('uk', false)
    const all = [
      ...sentences(),
      ...found(/\bNotFound\("([^"]+)"\)/g).map((what) => `${what} not found`),
      ...composed,
    ].filter((sentence) => !parts.test(sentence))
    expect(all.length).toBeGreaterThan(120)
    expect([...new Set(all)].filter((sentence) => say(sentence) === sentence)).toEqual([])
  })

  it('names causes by words, not by codes', async () => {
    const of = (reason: string) => [
      `Failed on alpine-1 (${reason})`,
      `Attempt 1 of 3 failed (${reason}); will be retried`,
      `The attempt failed without an error message (${reason})`,
    ]
    for (const language of ['en', 'uk'] as const) {
      await setLanguage(language, false)
      for (const reason of errorClasses)
        for (const sentence of of(reason)) expect(say(sentence), sentence).not.toContain(`(${reason})`)
    }
    await setLanguage('en', false)
    expect(of('timeout').map(say)).toEqual([
      'Failed on alpine-1: It ran out of time',
      'Attempt 1 of 3 failed and will be retried: It ran out of time',
      'The attempt failed without an error message: It ran out of time',
    ])
  })

  it('has the codes of refusals in Ukrainian', () => {
    const codes = new Set([...found(/\bCode\w* *[:=] *"([a-z_]+)"/g)])
    expect(codes.size).toBeGreaterThan(25)
    expect([...codes].filter((code) => !(code in server.codes))).toEqual([])
  })

  it('keeps the values, and says those that are words, too', async () => {
    await setLanguage('uk', false)
    expect(say('Leased to alpine-1 for 300 s (attempt 2 of 3)')).toBe(
      'Видано виконавцеві alpine-1 на 300 с (спроба 2 з 3)',
    )
    expect(say("Task status is 'running', expected 'queued'")).toContain('«Виконується»')
    expect(say('Failed on alpine-1 (timeout)')).toBe('Помилка на alpine-1 (Час вичерпано)')
    for (const whose of found(/\ball\.(?:New|Over)\([^\n]*"([^"]+)", c\./g))
      expect(say(`Too many requests: the limit for ${whose} is 20 a minute; try again later`)).not.toContain(whose)
    expect(say('worker key pi in the attic')).toBe('Ключ pi in the attic (Виконавець)')
    expect(say('Invalid request: prompt must not be empty')).toBe('Запит неправильний: prompt не може бути порожнім')
    for (const [english, text] of Object.entries(server.sentences)) {
      const names = (of: string) => [...new Set(of.match(/\{\{\w+\}\}/g) ?? [])].sort()
      expect(names(text), english).toEqual(names(english))
    }
  })

  it('leaves what it does not know as it is, with what its code stands for', async () => {
    await setLanguage('uk', false)
    for (const text of ['What a person wrote', 'Unknown error', 'Too many cooks']) expect(say(text)).toBe(text)
    expect(sayError(new ApiError('Of the future', 409, 'conflict'))).toBe(
      'Теперішній стан цього не дозволяє: Of the future',
    )
    expect(sayError(new ApiError('Of the future', 409, 'of_the_future'))).toBe('Of the future')
    await setLanguage('en', false)
    expect(say('Undrained')).toBe('Undrained')
    expect(sayError(new ApiError('Task not found', 404, 'not_found'))).toBe('Task not found')
  })
})
