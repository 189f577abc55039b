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

/** One answer of the model, from when it was asked to the last of what it said. */
export interface Turn extends Base {
  kind: 'turn'
  from: number
  to: number
  tokens: number
}

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
  /** By the events that they begin with. */
  readonly turns: Turn[] = []
  /** What subagents used, by the call that started each. */
  readonly tokensOf = new Map<string, number>()
  /** Tokens that came before what they were used for, and whether they are of a new answer. */
  private unclaimed = 0
  private fresh = true
  private claim: (tokens: number) => void = () => undefined
  /** When the model was asked: the last result, or the end of its last answer. */
  private asked = 0
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
    this.count(event, data, parent)
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

  /** Gives what was used to the turn or the subagent that used it: usage does not say whose it is, but comes before. */
  private count({ type, at, seq, epoch }: TaskEvent, data: Record<string, unknown>, parent: string) {
    if (type === 'usage') {
      const { tokens = 0, input = 0, cached = 0 } = this.usage ?? {}
      const used = count(data.tokens_used) - tokens
      // Input grows with a new answer, output at its end.
      if (count(data.input_tokens) + count(data.cache_read_tokens) > input + cached) this.fresh = true
      if (this.fresh) this.unclaimed += used
      else this.claim(used)
    } else if (type === 'leased') {
      this.usage = null
      this.unclaimed = 0
      this.fresh = true
    } else if (type === 'session') {
      this.asked = at
    } else if (type === 'tool_result') {
      this.fresh = true
      this.asked = at
    } else if (parent !== '') {
      this.claim = (tokens) => this.tokensOf.set(parent, (this.tokensOf.get(parent) ?? 0) + tokens)
      this.take()
    } else if (type === 'text' || type === 'thinking' || type === 'tool_use') {
      if (this.fresh) this.turns.push({ kind: 'turn', key: seq, at, epoch, from: this.asked || at, to: at, tokens: 0 })
      const turn = this.turns.at(-1)
      if (!turn) return
      turn.to = this.asked = at
      this.claim = (tokens) => {
        turn.tokens += tokens
      }
      this.take()
    }
  }

  private take() {
    this.claim(this.unclaimed)
    this.unclaimed = 0
    this.fresh = false
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
