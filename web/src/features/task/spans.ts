import type { Conversation, Item, Tool, Turn } from './conversation'

/** A line of the waterfall. */
export interface Line {
  key: number
  /** 0: a turn, 1: its tools, 2 and more: what subagents did. */
  depth: number
  of: Turn | Tool
  from: number
  /** null while it goes on. */
  to: number | null
  tokens: number
}

/** The turns of an attempt with their tools and subagents, in the order in which they began. */
export function linesOf({ items, turns, tokensOf }: Conversation, epoch: number): Line[] {
  const lines: Line[] = turns
    .filter((turn) => turn.epoch === epoch)
    .map((turn) => ({ key: turn.key - 0.5, depth: 0, of: turn, from: turn.from, to: turn.to, tokens: turn.tokens }))
  const add = (list: Item[], depth: number) => {
    for (const item of list) {
      if (item.kind !== 'tool' || item.epoch !== epoch) continue
      lines.push({
        key: item.key,
        depth,
        of: item,
        from: item.at,
        to: endOf(item),
        tokens: tokensOf.get(item.id) ?? 0,
      })
    }
  }
  add(items, 1)
  lines.sort((a, b) => a.key - b.key)
  // What a subagent did follows its call, also what it did later.
  return lines.flatMap((line) => [line, ...nested(line, 2)])
  function nested({ of }: Line, depth: number): Line[] {
    if (of.kind !== 'tool' || of.children.length === 0) return []
    const start = lines.length
    add(of.children, depth)
    return lines.splice(start).flatMap((line) => [line, ...nested(line, depth + 1)])
  }
}

/** When a call was answered. A subagent that was started in the background goes on after that. */
function endOf({ result, children }: Tool): number | null {
  if (!result) return null
  return children.reduce(
    (end, child) => Math.max(end, child.kind === 'tool' ? (endOf(child) ?? 0) : child.at),
    result.at,
  )
}
