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

describe('components', () => {
  it('hold no text of their own', () => {
    const shown = new Set([
      'title',
      'label',
      'placeholder',
      'alt',
      'aria-label',
      'aria-description',
      'lead',
      'hint',
      'text',
    ])
    const word = /\p{L}{2,}/u
    const outside: string[] = []
    for (const file of files) {
      visit(file, (node) => {
        if (ts.isJsxText(node) && word.test(node.text)) outside.push(`${where(node)} ${node.text.trim()}`)
        if (
          ts.isJsxAttribute(node) &&
          shown.has(node.name.getText()) &&
          node.initializer &&
          ts.isStringLiteral(node.initializer) &&
          word.test(node.initializer.text)
        ) {
          outside.push(`${where(node)} ${node.initializer.text}`)
        }
      })
    }
    expect(outside).toEqual([])
  })
})
