import {
  Bot,
  ChevronRight,
  FilePen,
  FilePlus,
  FileText,
  Globe,
  ListTodo,
  type LucideIcon,
  Search,
  Terminal,
  Wrench,
} from 'lucide-react'
import { memo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { CodeBlock } from '@/ui/code'
import { Elapsed } from '@/ui/facts'
import { JsonTree } from '@/ui/json-tree'
import { Prose } from '@/ui/prose'
import { Tip } from '@/ui/tip'
import type { Tool } from './conversation'
import { Diff } from './diff'
import { fileOf, inFolder } from './paths'
import { Row } from './rows'

type Kind = 'bash' | 'edit' | 'write' | 'read' | 'search' | 'web' | 'agent' | 'todo' | 'other'

const kinds: Record<string, Kind> = {
  Bash: 'bash',
  BashOutput: 'bash',
  Edit: 'edit',
  MultiEdit: 'edit',
  NotebookEdit: 'edit',
  Write: 'write',
  Read: 'read',
  Grep: 'search',
  Glob: 'search',
  LS: 'search',
  WebFetch: 'web',
  WebSearch: 'web',
  Task: 'agent',
  Agent: 'agent',
  TodoWrite: 'todo',
}

const icons: Record<Kind, LucideIcon> = {
  bash: Terminal,
  edit: FilePen,
  write: FilePlus,
  read: FileText,
  search: Search,
  web: Globe,
  agent: Bot,
  todo: ListTodo,
  other: Wrench,
}

/** A file's language by the ending of its name. */
const languageOf = (input: Record<string, unknown>) => /\.(\w+)$/.exec(fileOf(input))?.[1]?.toLowerCase() ?? ''

const str = (value: unknown) => (typeof value === 'string' ? value : '')

type About = Pick<Tool, 'name' | 'input' | 'folder'>

/** What a call is about, in one line. */
function subject(kind: Kind, { input, folder }: About): string {
  switch (kind) {
    case 'bash':
      return str(input.command)
    case 'edit':
    case 'write':
    case 'read':
      return inFolder(fileOf(input), folder)
    case 'search':
      return [str(input.pattern), inFolder(str(input.path), folder)].filter(Boolean).join('  ')
    case 'web':
      return str(input.url) || str(input.query)
    case 'agent':
      return str(input.description) || str(input.prompt)
    case 'todo':
      return ''
    case 'other':
      return str(Object.values(input).find((v) => typeof v === 'string'))
  }
}

/** What a call is about, with the picture of its kind. */
export function aboutOf(tool: About) {
  const kind = kinds[tool.name] ?? 'other'
  return { kind, Icon: icons[kind], text: subject(kind, tool) }
}

/** One tool call: a line that opens to what went in and what came out. */
export const ToolCard = memo(function ToolCard({ tool, over }: { tool: Tool; over: boolean }) {
  const { t } = useTranslation()
  const format = useFormat()
  const kind = kinds[tool.name] ?? 'other'
  const Icon = icons[kind]
  const failed = tool.result?.failed === true
  // Changes, failures and what a subagent does are worth seeing without a click.
  const [open, setOpen] = useState<boolean>()
  const shown = open ?? (failed || kind === 'edit' || kind === 'agent' || kind === 'todo')
  return (
    <div className={cn('overflow-hidden rounded-lg border bg-surface', failed && 'border-bad/40')}>
      <button
        type="button"
        aria-expanded={shown}
        onClick={() => setOpen(!shown)}
        className="flex min-h-9 w-full items-center gap-2.5 px-3 py-1.5 text-left hover:bg-sunken/70"
      >
        <Icon className={cn('size-4 shrink-0', failed ? 'text-bad' : 'text-ink-3')} aria-hidden />
        <span className="shrink-0 text-[13px] font-medium">{tool.name || t('task.tool')}</span>
        <Subject text={subject(kind, tool)} file={fileOf(tool.input)} />
        <span className="shrink-0 text-xs text-ink-3">
          {tool.result ? (
            failed ? (
              <span className="font-medium text-bad">{t('task.failed')}</span>
            ) : (
              format.duration(tool.result.at - tool.at)
            )
          ) : over ? (
            t('task.noAnswer')
          ) : (
            <span className="breathe text-info">
              <Elapsed from={tool.at} />
            </span>
          )}
        </span>
        <ChevronRight
          className={cn('size-4 shrink-0 text-ink-3 transition-transform', shown && 'rotate-90')}
          aria-hidden
        />
      </button>
      {shown && (
        <div className="space-y-2 border-t p-3">
          <ToolInput name={tool.name} input={tool.input} />
          {tool.children.length > 0 && (
            <div className="space-y-2.5 border-l-2 border-accent-soft pl-3">
              {tool.children.map((item) => (
                <Row key={item.key} item={item} over={over} />
              ))}
            </div>
          )}
          <Output kind={kind} tool={tool} />
        </div>
      )}
    </div>
  )
})

/** Of a file's path the end is what tells it apart: the beginning is cut off, and shown on hover. */
function Subject({ text, file }: { text: string; file: string }) {
  const look = 'min-w-0 flex-1 truncate font-mono text-xs text-ink-2'
  if (!file) return <span className={look}>{text}</span>
  return (
    <Tip text={<span className="font-mono wrap-anywhere">{file}</span>}>
      <span dir="rtl" className={cn(look, 'text-left')}>
        <bdi dir="ltr">{text}</bdi>
      </span>
    </Tip>
  )
}

/** What goes into a call. */
export function ToolInput({ name, input }: Pick<Tool, 'name' | 'input'>) {
  const { t } = useTranslation()
  const kind = kinds[name] ?? 'other'
  switch (kind) {
    case 'bash':
      return <CodeBlock text={`$ ${str(input.command)}`} language="bash" label={t('task.input')} />
    case 'edit': {
      const edits = Array.isArray(input.edits) ? (input.edits as Record<string, unknown>[]) : [input]
      return edits.map((edit, i) => (
        <Diff
          // biome-ignore lint/suspicious/noArrayIndexKey: a call's edits never change
          key={i}
          before={str(edit.old_string)}
          after={str(edit.new_string) || str(edit.new_source)}
          language={languageOf(input)}
        />
      ))
    }
    case 'write':
      return <Diff before="" after={str(input.content)} language={languageOf(input)} />
    case 'agent':
      return str(input.prompt) ? <CodeBlock text={str(input.prompt)} limit={4} label={t('task.input')} /> : null
    case 'todo':
      return <Todos todos={input.todos} />
    case 'read':
    case 'search':
      return null
    case 'web':
    case 'other':
      return <JsonTree value={input} />
  }
}

function Todos({ todos }: { todos: unknown }) {
  const { t } = useTranslation()
  if (!Array.isArray(todos)) return null
  return (
    <ul className="space-y-1">
      {todos.map((todo: Record<string, unknown>) => {
        const done = todo.status === 'completed'
        const current = todo.status === 'in_progress'
        return (
          <li
            key={str(todo.content)}
            className={cn('flex gap-2', done && 'text-ink-3 line-through', current && 'font-medium')}
          >
            <span aria-hidden>{done ? '✓' : current ? '›' : '○'}</span>
            <span className="sr-only">
              {done ? t('task.todo.done') : current ? t('task.todo.current') : t('task.todo.open')}
            </span>
            {str(todo.content)}
          </li>
        )
      })}
    </ul>
  )
}

function Output({ kind, tool }: { kind: Kind; tool: Tool }) {
  const { t } = useTranslation()
  const { result } = tool
  if (!result) return null
  const text = result.text.replace(/<\/?tool_use_error>/g, '')
  // That a file was written is what the diff above says already; a subagent says it itself.
  if (!result.failed && (kind === 'edit' || kind === 'write' || kind === 'todo')) return null
  if (kind === 'agent' && tool.children.length > 0 && !result.failed) return null
  if (text === '') return <p className="text-xs text-ink-3">{t('task.noOutput')}</p>
  if (kind === 'agent' && !result.failed) return <Prose text={text} />
  return (
    <>
      <CodeBlock
        text={text}
        limit={16}
        tone={result.failed ? 'bad' : undefined}
        language={kind === 'read' && !result.failed ? languageOf(tool.input) : ''}
        label={t('task.output')}
      />
      {result.truncated && <p className="text-xs text-ink-3">{t('task.truncated')}</p>}
    </>
  )
}
