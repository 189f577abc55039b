import type { Artifact } from '@/api/client'
import { iconOf, pathOf } from './kind'
import { useTypeName } from './type-name'

/** What an artifact is called, which opens it: a file's name before its folder. */
export function Name({ artifact: a, onOpen }: { artifact: Artifact; onOpen: () => void }) {
  const nameOfType = useTypeName()
  const Icon = iconOf(a)
  const [, folder = '', name = ''] = /^(.*\/)?([^/]*)$/.exec(pathOf(a)) ?? []
  return (
    <button
      type="button"
      onClick={onOpen}
      title={pathOf(a) || a.id}
      className="group flex max-w-full items-center gap-2 text-left"
    >
      <Icon className="size-4 shrink-0 text-ink-3" aria-hidden />
      <span className="min-w-0 truncate">
        {folder && <span className="text-ink-3">{folder}</span>}
        <span className="font-medium text-accent-strong group-hover:underline">{name || nameOfType(a.type)}</span>
      </span>
    </button>
  )
}
