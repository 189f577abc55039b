import type { TaskEvent } from './events'

interface Base {
  key: number
  at: number
  /** The attempt that it belongs to; 0 before the first. */
  epoch: number
}

export interface Said extends Base {
  kind: 'text' | 'thinking' | 'stderr'
  text: string
  truncated: boolean
}

export interface Tool extends Base {
  kind: 'tool'
  id: string
  name: string
  input: Record<string, unknown>
  /** The folder that the run works in, where it is known. */
  folder: string
  result: { text: string; failed: boolean; at: number; truncated: boolean } | null
  /** What a subagent that this call started did. */
  children: Item[]
}

export interface Step extends Base {
  kind: 'step'
  type: string
  data: Record<string, unknown>
}

export type Item = Said | Tool | Step

export interface Usage {
  tokens: number
  input: number
  output: number
  cached: number
  /** An estimate in US dollars; null when the worker does not say. */
  cost: number | null
}

const said = new Set(['text', 'thinking', 'stderr'])
const steps = new Set([
  'leased',
  'started',
  'session',
  'retried',
  'released',
  'expired',
  'requeued',
  'cancel_requested',
  'completed',
  'failed',
  'dead',
  'cancelled',
  'api_retry',
  'rate_limit',
  'artifact',
  'transcript_refused',
  'workspace_refused',
  'hint_missing',
  'hints',
  'warning',
])

/**
 * The stream as a conversation. Events go in one after the other; items are
 * replaced, never changed, so that a row that stayed the same is not drawn again.
 */
export class Conversation {
  items: Item[] = []
  usage: Usage | null = null
  model = ''
  private folder = ''
  lastSeq = 0
  events = 0
  private readonly places = new Map<string, { index: number; parent: string }>()

  push(event: TaskEvent) {
    if (event.seq <= this.lastSeq) return
    this.lastSeq = event.seq
    this.events++
    const data = event.data ?? {}
    const parent = text(data.parent)
    if (said.has(event.type)) {
      const kind = event.type as Said['kind']
      this.add({ kind, ...placeOf(event), text: text(data.text), truncated: data.truncated === true }, parent)
    } else if (event.type === 'tool_use') {
      this.use(event, data, parent)
    } else if (event.type === 'tool_result') {
      this.answer(event, data)
    } else if (event.type === 'usage') {
      this.usage = {
        tokens: count(data.tokens_used),
        input: count(data.input_tokens),
        output: count(data.output_tokens),
        cached: count(data.cache_read_tokens),
        cost: typeof data.cost_usd === 'number' ? data.cost_usd : null,
      }
    } else if (steps.has(event.type)) {
      if (event.type === 'session') {
        this.model = text(data.model)
        this.folder = text(data.workdir)
      }
      this.add({ kind: 'step', ...placeOf(event), type: event.type, data }, '')
    }
  }

  private use(event: TaskEvent, data: Record<string, unknown>, parent: string) {
    const id = text(data.id)
    const input = typeof data.input === 'object' && data.input !== null ? data.input : { input: text(data.input_text) }
    this.add(
      {
        kind: 'tool',
        ...placeOf(event),
        id,
        name: text(data.name),
        input: input as Record<string, unknown>,
        folder: this.folder,
        result: null,
        children: [],
      },
      parent,
    )
  }

  private answer(event: TaskEvent, data: Record<string, unknown>) {
    const result = {
      text: text(data.text),
      failed: data.is_error === true,
      at: event.at,
      truncated: data.truncated === true,
    }
    this.replace(text(data.id), (tool) => ({ ...tool, result }))
  }

  private add(item: Item, parent: string) {
    let list = this.items
    if (parent && this.places.has(parent)) {
      this.replace(parent, (tool) => {
        list = [...tool.children]
        return { ...tool, children: list }
      })
    } else {
      parent = ''
    }
    if (item.kind === 'tool') this.places.set(item.id, { index: list.length, parent })
    list.push(item)
  }

  /** Replaces a tool call, and every call that it is nested in. */
  private replace(id: string, change: (tool: Tool) => Tool) {
    const place = this.places.get(id)
    if (!place) return
    const swap = (list: Item[]) => {
      const tool = list[place.index]
      if (tool?.kind === 'tool') list[place.index] = change(tool)
    }
    if (place.parent === '') {
      swap(this.items)
      return
    }
    this.replace(place.parent, (outer) => {
      const children = [...outer.children]
      swap(children)
      return { ...outer, children }
    })
  }
}

const placeOf = ({ seq, at, epoch }: TaskEvent): Base => ({ key: seq, at, epoch })
const text = (value: unknown) => (typeof value === 'string' ? value : '')
const count = (value: unknown) => (typeof value === 'number' ? value : 0)
