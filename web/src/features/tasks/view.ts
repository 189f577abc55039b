import type { SavedFilter, Task } from '@/api/client'
import type { TaskFilters, TaskView } from '@/app/router'
import { isRange, isSort, ranges, type Sort } from '@/app/task-views'
import { isFinal } from '@/features/task/events'

/** The columns beside the prompt, in their order. */
export const columnNames = [
  'status',
  'agent_slug',
  'context_id',
  'worker_id',
  'labels',
  'attempts',
  'tokens',
  'duration',
  'cost',
  'created_at',
  'id',
] as const
export type ColumnName = (typeof columnNames)[number]
export const defaultColumns: ColumnName[] = ['status', 'agent_slug', 'worker_id', 'duration', 'cost', 'created_at']

/** Those of the names that are columns, in the order of the table; nothing where none is. */
export function columnsOf(names: readonly string[] | null | undefined): ColumnName[] | undefined {
  const known = columnNames.filter((name) => names?.includes(name))
  return known.length > 0 ? known : undefined
}

const labelsOf = (label: string | undefined) =>
  (label ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

/** The filters as conditions of the API: labels one by one, and since when. */
export function conditionsOf({ label, within, ...rest }: TaskFilters, now = Date.now()) {
  return { ...rest, labels: labelsOf(label), since: within ? now - ranges[within] * 1000 : 0 }
}

/** How long the current or last attempt has run; undefined while there is none. */
export const durationOf = (task: Task, now: number) =>
  task.started_at ? Math.max(0, (isFinal(task.status) ? task.updated_at : now) - task.started_at) : undefined

const values: Record<string, (task: Task, now: number) => number | undefined> = {
  created_at: (task) => task.created_at,
  duration: durationOf,
  cost: (task) => task.usage?.cost_usd,
  tokens: (task) => task.usage?.tokens_used,
}
export const isSortable = (column: string) => Object.hasOwn(values, column)

/** The next way to sort when a column's head is pressed: largest first, smallest first, newest first again. */
export function nextSort(sort: Sort | undefined, column: string): Sort | undefined {
  const next = sort === column ? '' : column === 'created_at' || sort === `-${column}` ? column : `-${column}`
  return isSort(next) ? next : undefined
}

/** The tasks in that order; those without a value come last. */
export function sorted(tasks: Task[], sort: Sort | undefined, now: number): Task[] {
  const value = sort && values[sort.replace(/^-/, '')]
  if (!value) return tasks
  const sign = sort.startsWith('-') ? -1 : 1
  return tasks
    .map((task) => ({ task, value: value(task, now) }))
    .sort((a, b) =>
      a.value === undefined || b.value === undefined
        ? Number(a.value === undefined) - Number(b.value === undefined)
        : sign * (a.value - b.value),
    )
    .map(({ task }) => task)
}

const texts = ['status', 'agent_slug', 'context_id', 'worker_id', 'error_class', 'q'] as const

/** A saved view as the address has it: without what it leaves open. */
export function viewOf(saved: SavedFilter): TaskFilters & TaskView {
  const within = Object.keys(ranges).find((name) => isRange(name) && ranges[name] === saved.within_sec)
  const columns = columnsOf(saved.columns)
  return {
    ...Object.fromEntries(texts.flatMap((name) => (saved[name] ? [[name, saved[name]]] : []))),
    ...(saved.labels?.length ? { label: saved.labels.join(',') } : {}),
    ...(isRange(within) ? { within } : {}),
    ...(isSort(saved.sort) ? { sort: saved.sort } : {}),
    ...(columns ? { columns: columns.join(',') } : {}),
  }
}

/** What is saved of a view. */
export function savedOf({ sort, columns, label, within, ...rest }: TaskFilters & TaskView): SavedFilter {
  return {
    ...rest,
    ...(label ? { labels: labelsOf(label) } : {}),
    ...(within ? { within_sec: ranges[within] } : {}),
    ...(sort ? { sort } : {}),
    ...(columns ? { columns: columns.split(',') } : {}),
  }
}
