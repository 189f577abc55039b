import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { messages as en } from './en'
import { messages as uk } from './uk'

const src = join(import.meta.dirname, '..')
const plural = /_(zero|one|two|few|many|other)$/

function flat(tree: object, prefix = ''): Map<string, string> {
  const all = new Map<string, string>()
  for (const [name, value] of Object.entries(tree)) {
    if (typeof value === 'string') all.set(prefix + name, value)
    else for (const [k, v] of flat(value as object, `${prefix}${name}.`)) all.set(k, v)
  }
  return all
}

const files = (readdirSync(src, { recursive: true }) as string[])
  .filter((f) => /\.tsx?$/.test(f) && !/\.test\.tsx?$/.test(f) && !f.startsWith('test/') && !f.endsWith('schema.d.ts'))
  .map((f) => {
    const path = join(src, f)
    return ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX)
  })

function visit(node: ts.Node, see: (node: ts.Node) => void) {
  see(node)
  node.forEachChild((child) => visit(child, see))
}

const where = (node: ts.Node) => {
  const file = node.getSourceFile()
  return `${relative(src, file.fileName)}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}`
}

/** Every text in the source that may be a key: whole ones, and patterns for those that are put together. */
function usedKeys() {
  const whole = new Set<string>()
  const patterns: RegExp[] = []
  for (const file of files) {
    visit(file, (node) => {
      if (ts.isStringLiteralLike(node)) whole.add(node.text)
      if (ts.isTemplateExpression(node)) {
        const parts = [node.head.text, ...node.templateSpans.map((s) => s.literal.text)]
        if (/^[a-z][A-Za-z]*\./.test(parts[0] ?? '')) {
          patterns.push(new RegExp(`^${parts.map((p) => p.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^.]+')}$`))
        }
      }
    })
  }
  return { whole, patterns }
}

describe('messages', () => {
  const english = flat(en)
  const ukrainian = flat(uk)
  const base = (key: string) => key.replace(plural, '')

  it('are the same in both languages', () => {
    const keys = (m: Map<string, string>) => [...new Set([...m.keys()].map(base))].sort()
    expect(keys(ukrainian)).toEqual(keys(english))
  })

  it('have every plural form that the language has', () => {
    const missing: string[] = []
    for (const [language, all] of [
      ['en', english],
      ['uk', ukrainian],
    ] as const) {
      const forms = new Intl.PluralRules(language).resolvedOptions().pluralCategories
      for (const key of new Set([...all.keys()].filter((k) => plural.test(k)).map(base))) {
        for (const form of forms) if (!all.has(`${key}_${form}`)) missing.push(`${language}: ${key}_${form}`)
      }
    }
    expect(missing).toEqual([])
  })

  it('name the same values in both languages', () => {
    const values = (text: string) => [...new Set(text.match(/\{\{\s*\w+/g) ?? [])].sort().join(' ')
    const different: string[] = []
    for (const [key, text] of english) {
      const other = ukrainian.get(key) ?? ukrainian.get(key.replace(plural, '_many'))
      if (other !== undefined && !plural.test(key) && values(text) !== values(other)) different.push(key)
    }
    expect(different).toEqual([])
  })

  it('are all used, and all that are used exist', () => {
    const { whole, patterns } = usedKeys()
    const bases = new Set([...english.keys()].map(base))
    const unused = [...bases].filter((key) => !whole.has(key) && !patterns.some((p) => p.test(key)))
    expect(unused).toEqual([])

    const missing: string[] = []
    for (const file of files) {
      visit(file, (node) => {
        if (!ts.isCallExpression(node) || !/^(t|i18next\.t|i18n\.t)$/.test(node.expression.getText())) return
        const [key] = node.arguments
        if (key && ts.isStringLiteralLike(key) && !bases.has(key.text)) missing.push(`${where(node)} ${key.text}`)
      })
    }
    expect(missing).toEqual([])
  })
})

/** Attributes and properties whose text a person sees or hears. */
const shown =
  /^(title|tabTitle|label|placeholder|alt|lead|hint|text|action|none|noneHint|summary|caption|body|aria-(label|description|placeholder|roledescription|valuetext))$/
const word = /\p{L}{2,}/u

/** What is the same in every language: names, formats, keys, and commands to type. */
const names =
  /^(BLOOM|Runtime|null|English|Українська|SQLite|PostgreSQL|JSON|JSONL|CSV|Ctrl|Enter|Esc|(bloom|curl) .*|[^\p{L}]*|\p{L})$/su

/** The texts that an expression may come to: the branches of conditions, the parts of templates. */
function textsOf(node: ts.Expression): ts.Node[] {
  if (ts.isStringLiteralLike(node)) return [node]
  if (ts.isTemplateExpression(node))
    return [node.head, ...node.templateSpans.flatMap((span) => [span.literal, ...textsOf(span.expression)])]
  if (ts.isConditionalExpression(node)) return [...textsOf(node.whenTrue), ...textsOf(node.whenFalse)]
  if (
    ts.isParenthesizedExpression(node) ||
    ts.isAsExpression(node) ||
    ts.isSatisfiesExpression(node) ||
    ts.isNonNullExpression(node)
  )
    return textsOf(node.expression)
  if (ts.isArrayLiteralExpression(node)) return node.elements.flatMap(textsOf)
  if (
    ts.isCallExpression(node) &&
    ts.isPropertyAccessExpression(node.expression) &&
    node.expression.name.text === 'join'
  )
    return textsOf(node.expression.expression)
  if (ts.isBinaryExpression(node)) {
    const { kind } = node.operatorToken
    if (kind === ts.SyntaxKind.AmpersandAmpersandToken) return textsOf(node.right)
    if ([ts.SyntaxKind.BarBarToken, ts.SyntaxKind.QuestionQuestionToken, ts.SyntaxKind.PlusToken].includes(kind))
      return [...textsOf(node.left), ...textsOf(node.right)]
  }
  return []
}

const textOf = (node: ts.Node) => ('text' in node && typeof node.text === 'string' ? node.text : '')

/** The texts in a file that people see and that are in no message. */
function outsideOf(file: ts.SourceFile): string[] {
  const outside: string[] = []
  const look = (nodes: ts.Node[], whole: ts.Node) => {
    // A command is told by its beginning, which may be one part of several.
    if (names.test(nodes.map(textOf).join(''))) return
    for (const node of nodes) {
      const text = textOf(node).trim()
      if (word.test(text) && !names.test(text)) outside.push(`${where(whole)} ${text}`)
    }
  }
  visit(file, (node) => {
    if (ts.isJsxText(node)) look([node], node)
    if (ts.isJsxExpression(node) && node.expression) {
      const { parent } = node
      if (ts.isJsxElement(parent) || ts.isJsxFragment(parent)) look(textsOf(node.expression), node)
      if (ts.isJsxAttribute(parent) && shown.test(parent.name.getText())) look(textsOf(node.expression), node)
    }
    if (
      ts.isJsxAttribute(node) &&
      shown.test(node.name.getText()) &&
      node.initializer &&
      ts.isStringLiteral(node.initializer)
    )
      look([node.initializer], node)
    // What becomes an attribute later: { label: 'Text' } — a single word in small letters is a name or a key.
    if (ts.isPropertyAssignment(node) && shown.test(node.name.getText().replace(/['"]/g, '')))
      look(
        textsOf(node.initializer).filter((text) => /^\p{Lu}|\s/u.test(textOf(text))),
        node,
      )
    if (
      ts.isBinaryExpression(node) &&
      node.operatorToken.kind === ts.SyntaxKind.EqualsToken &&
      ts.isPropertyAccessExpression(node.left) &&
      /^(title|textContent|innerText|placeholder|ariaLabel)$/.test(node.left.name.text)
    )
      look(
        textsOf(node.right).filter((text) => !/^ · BLOOM$/.test(textOf(text))),
        node,
      )
    if (ts.isCallExpression(node) && /^(toast|alert|confirm|prompt)$/.test(node.expression.getText()))
      look(textsOf(node.arguments[0] ?? ts.factory.createNull()), node)
  })
  return outside
}

describe('components', () => {
  it('hold no text of their own', () => {
    expect(files.flatMap(outsideOf)).toEqual([])
  })

  it('would be found out', () => {
    const found = (code: string) =>
      outsideOf(ts.createSourceFile(join(src, 'x.tsx'), code, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX)).map(
        (at) => at.replace(/^\S+ /, ''),
      )
    const caught: Record<string, string[]> = {
      '<p>Plain text</p>': ['Plain text'],
      "<p>{done ? 'Finished' : t('ui.loading')}</p>": ['Finished'],
      "<p>{n > 0 && 'There are some'}</p>": ['There are some'],
      "<p>{name ?? 'Nobody'}</p>": ['Nobody'],
      '<p>{`of ${n} tasks`}</p>': ['of', 'tasks'],
      "<>{'Text'}</>": ['Text'],
      '<button aria-label="Close it" />': ['Close it'],
      "<button aria-label={open ? 'Close it' : t('ui.open')} />": ['Close it'],
      '<input placeholder={`Find ${what}`} />': ['Find'],
      "<Panel title={'A panel'} />": ['A panel'],
      "<Panel title={<>{'A panel'}</>} />": ['A panel'],
      "const options = [{ value: 'a', label: 'First one' }]": ['First one'],
      "toast('Saved')": ['Saved'],
      "document.title = 'Tasks'": ['Tasks'],
      "<p>{t('ui.loading')}</p>": [],
      "<p className=\"text ink\">{kind === 'json' ? 'JSON' : t('ui.code')}</p>": [],
      '<Command text={`bloom worker --runtime-url ${url}`} />': [],
      "<p>{n}{' · '}{m}</p>": [],
    }
    for (const [code, want] of Object.entries(caught)) expect(found(code), code).toEqual(want)
  })
})
