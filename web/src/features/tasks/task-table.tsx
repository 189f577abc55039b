import { Link, useNavigate } from '@tanstack/react-router'
import { createColumnHelper, flexRender, getCoreRowModel, useReactTable } from '@tanstack/react-table'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, ArrowUp } from 'lucide-react'
import { type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import type { Sort } from '@/app/task-views'
import { causeOf } from '@/features/task/error-classes'
import { isFinal } from '@/features/task/events'
import { cn } from '@/lib/cn'
import { useFormat, useNow } from '@/lib/format'
import { TaskBadge } from '@/ui/badge'
import { Ago, Elapsed, Id } from '@/ui/facts'
import { Snippet } from '@/ui/snippet'
import { Th } from '@/ui/table'
import { Tip } from '@/ui/tip'
import { type ColumnName, columnNames, isSortable, nextSort } from './view'

const column = createColumnHelper<Task>()
const rowHeight = 44

/** Widths of the columns; what does not fit on a narrow screen is left out there. */
const cells: Record<string, string> = {
  choose: 'w-10',
  status: 'w-34 max-sm:hidden',
  prompt: '',
  agent_slug: 'w-32 max-lg:hidden',
  context_id: 'w-36 max-lg:hidden',
  worker_id: 'w-32 max-xl:hidden',
  labels: 'w-32 max-lg:hidden',
  attempts: 'w-24 text-right max-lg:hidden',
  tokens: 'w-24 text-right max-lg:hidden',
  duration: 'w-28 text-right max-md:hidden',
  cost: 'w-24 text-right max-md:hidden',
  created_at: 'w-28 max-sm:hidden',
  id: 'w-28 max-lg:hidden',
}

export function TaskTable({
  tasks,
  columns: shown,
  sort,
  onSort,
  chosen,
  onChoose,
  onTop,
  onEnd,
  loadingMore,
}: {
  tasks: Task[]
  columns: ColumnName[]
  sort: Sort | undefined
  onSort: (sort: Sort | undefined) => void
  chosen: ReadonlySet<string>
  onChoose: (chosen: ReadonlySet<string>) => void
  onTop: (top: boolean) => void
  onEnd: () => void
  loadingMore: boolean
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const navigate = useNavigate()
  const list = useRef<HTMLTableSectionElement>(null)
  const [margin, setMargin] = useState(0)
  // There what the columns say is below the prompt, and takes as many lines as it needs.
  const narrow = useNarrow()

  const columns = useMemo(
    () => [
      column.accessor('status', {
        header: t('tasks.columns.status'),
        cell: (c) => <TaskBadge status={c.getValue()} />,
      }),
      column.accessor('prompt', {
        header: t('tasks.prompt'),
        cell: (c) => (
          <>
            <span className="flex items-baseline gap-3">
              <Link
                to="/tasks/$taskId"
                params={{ taskId: c.row.original.id }}
                className="block truncate font-medium hover:text-accent-strong"
              >
                {c.row.original.snippet ? <Snippet snippet={c.row.original.snippet} /> : c.getValue().slice(0, 300)}
              </Link>
              <Later task={c.row.original} />
              <Again task={c.row.original} />
              <Cause task={c.row.original} />
            </span>
            <Rest task={c.row.original} shown={shown} />
          </>
        ),
      }),
      column.accessor('agent_slug', { header: t('tasks.columns.agent_slug') }),
      column.accessor('context_id', {
        header: t('tasks.columns.context_id'),
        cell: (c) => <Id id={c.getValue()} className="block truncate text-ink-2" />,
      }),
      column.accessor('worker_id', {
        header: t('tasks.columns.worker_id'),
        cell: (c) => c.getValue() ?? none,
      }),
      column.accessor('labels', { header: t('tasks.columns.labels'), cell: (c) => c.getValue().join(', ') || none }),
      column.accessor('attempts', { header: t('tasks.columns.attempts'), cell: (c) => format.number(c.getValue()) }),
      column.accessor((task) => task.usage?.tokens_used, {
        id: 'tokens',
        header: t('tasks.columns.tokens'),
        cell: (c) => (c.getValue() === undefined ? none : format.compact(c.getValue() ?? 0)),
      }),
      column.display({
        id: 'duration',
        header: t('tasks.columns.duration'),
        cell: (c) => <Took task={c.row.original} />,
      }),
      column.accessor((task) => task.usage?.cost_usd, {
        id: 'cost',
        header: t('tasks.columns.cost'),
        cell: (c) => (c.getValue() === undefined ? none : format.money(c.getValue() ?? 0)),
      }),
      column.accessor('created_at', { header: t('tasks.columns.created_at'), cell: (c) => <Ago at={c.getValue()} /> }),
      column.accessor('id', {
        header: t('tasks.columns.id'),
        cell: (c) => <Id id={c.getValue()} className="text-ink-3" />,
      }),
    ],
    [t, format, shown],
  )
  const columnVisibility = useMemo(
    () => Object.fromEntries(columnNames.map((name) => [name, shown.includes(name)])),
    [shown],
  )
  const table = useReactTable({
    data: tasks,
    columns,
    state: { columnVisibility },
    getCoreRowModel: getCoreRowModel(),
    getRowId: (task) => task.id,
  })
  const rows = table.getRowModel().rows

  useLayoutEffect(() => {
    const measure = () => list.current && setMargin(list.current.getBoundingClientRect().top + scrollY)
    measure()
    const watch = new ResizeObserver(measure)
    watch.observe(document.body)
    return () => watch.disconnect()
  }, [])
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => (narrow ? 70 : rowHeight),
    getItemKey: (i) => rows[i]?.id ?? i,
    overscan: 12,
    scrollMargin: margin,
  })
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (last >= rows.length - 20) onEnd()
  }, [last, rows.length, onEnd])
  useEffect(() => {
    const look = () => onTop(scrollY < 80)
    look()
    addEventListener('scroll', look, { passive: true })
    return () => removeEventListener('scroll', look)
  }, [onTop])

  const choose = (id: string, on: boolean) => {
    const next = new Set(chosen)
    if (on) next.add(id)
    else next.delete(id)
    onChoose(next)
  }
  const all = rows.length > 0 && chosen.size >= rows.length
  // Rows that are out of sight are two empty ones, as high as all of them.
  const before = (items[0]?.start ?? margin) - margin
  const after = virtual.getTotalSize() - ((items.at(-1)?.end ?? margin) - margin)
  return (
    <table aria-rowcount={rows.length + 1} className="w-full table-fixed border-collapse text-[13px]">
      <caption className="sr-only">{t('tasks.title')}</caption>
      <thead>
        <tr>
          <Th className={cells.choose}>
            <input
              type="checkbox"
              aria-label={t('tasks.chooseAll')}
              checked={all}
              onChange={() => onChoose(all ? new Set() : new Set(rows.map((r) => r.id)))}
              className="block size-4 accent-accent"
            />
          </Th>
          {table.getFlatHeaders().map((h) => (
            <Th
              key={h.id}
              className={cells[h.id]}
              {...(isSortable(h.id) ? { 'aria-sort': directionOf(sort, h.id) } : {})}
            >
              {isSortable(h.id) ? (
                <button
                  type="button"
                  onClick={() => onSort(nextSort(sort, h.id))}
                  className={cn('inline-flex items-center gap-1 hover:text-ink', sort?.endsWith(h.id) && 'text-ink')}
                >
                  {flexRender(h.column.columnDef.header, h.getContext())}
                  {sort === h.id && <ArrowUp className="size-3" aria-hidden />}
                  {sort === `-${h.id}` && <ArrowDown className="size-3" aria-hidden />}
                </button>
              ) : (
                flexRender(h.column.columnDef.header, h.getContext())
              )}
            </Th>
          ))}
        </tr>
      </thead>
      <tbody ref={list} data-testid="tasks">
        {before > 0 && <tr aria-hidden style={{ height: before }} />}
        {items.map((v) => {
          const row = rows[v.index]
          if (!row) return null
          const on = chosen.has(row.id)
          return (
            <tr
              key={v.key}
              aria-rowindex={v.index + 2}
              data-task={row.id}
              data-index={v.index}
              ref={narrow ? virtual.measureElement : undefined}
              onClick={(e) => {
                if (e.target instanceof Element && e.target.closest('a, input, button')) return
                void navigate({ to: '/tasks/$taskId', params: { taskId: row.id } })
              }}
              className={cn('h-11 cursor-pointer border-b', on ? 'bg-accent-soft' : 'hover:bg-sunken/70')}
            >
              <td className={cn('px-3', cells.choose)}>
                <input
                  type="checkbox"
                  aria-label={t('tasks.choose', { id: row.id.slice(-8) })}
                  checked={on}
                  onChange={(e) => choose(row.id, e.target.checked)}
                  className="block size-4 accent-accent"
                />
              </td>
              {row.getVisibleCells().map((cell) => (
                <td
                  key={cell.id}
                  className={cn(
                    'truncate px-3 max-sm:py-2',
                    cells[cell.column.id],
                    cell.column.id !== 'prompt' && 'text-ink-2',
                  )}
                >
                  {flexRender(cell.column.columnDef.cell, cell.getContext())}
                </td>
              ))}
            </tr>
          )
        })}
        {after > 0 && <tr aria-hidden style={{ height: after }} />}
        {loadingMore && (
          <tr>
            <td colSpan={table.getVisibleFlatColumns().length + 1} className="px-3 py-2.5 text-xs text-ink-3">
              {t('ui.loading')}
            </td>
          </tr>
        )}
      </tbody>
    </table>
  )
}

const none = <span aria-hidden>–</span>

const directionOf = (sort: Sort | undefined, column: string) =>
  sort === column ? 'ascending' : sort === `-${column}` || (!sort && column === 'created_at') ? 'descending' : 'none'

/** How long the current or last attempt has taken. */
function Took({ task }: { task: Task }) {
  if (!task.started_at) return none
  const to = isFinal(task.status) ? task.updated_at : null
  return <Elapsed from={task.started_at} to={to} />
}

/** What the other columns say, where there is no room for them. */
function Rest({ task, shown }: { task: Task; shown: ColumnName[] }) {
  const { t } = useTranslation()
  const format = useFormat()
  const tokens = task.usage?.tokens_used
  const cost = task.usage?.cost_usd
  const says: Record<ColumnName, ReactNode> = {
    status: <TaskBadge status={task.status} />,
    agent_slug: task.agent_slug,
    context_id: task.context_id,
    worker_id: task.worker_id,
    labels: task.labels.join(', '),
    attempts: format.number(task.attempts),
    tokens: tokens !== undefined && format.compact(tokens),
    duration: task.started_at && <Took task={task} />,
    cost: cost !== undefined && format.money(cost),
    created_at: <Ago at={task.created_at} />,
    id: <Id id={task.id} />,
  }
  return (
    <span className="mt-0.5 flex flex-wrap items-center gap-x-2.5 gap-y-0.5 text-xs text-ink-3 sm:hidden">
      {shown.map(
        (name) =>
          says[name] && (
            <span key={name} className="min-w-0 truncate">
              {/* These say what they are by themselves. */}
              <span className={cn(selfEvident.has(name) && 'sr-only')}>{t(`tasks.columns.${name}`)}: </span>
              {says[name]}
            </span>
          ),
      )}
    </span>
  )
}

const selfEvident: ReadonlySet<ColumnName> = new Set([
  'status',
  'agent_slug',
  'worker_id',
  'duration',
  'cost',
  'created_at',
])

const phone = matchMedia('(width < 40rem)')
const onPhone = (listener: () => void) => {
  phone.addEventListener('change', listener)
  return () => phone.removeEventListener('change', listener)
}
const useNarrow = () => useSyncExternalStore(onPhone, () => phone.matches)

/** When a queued task may start, where that is not now. */
function Later({ task }: { task: Task }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  if (task.status !== 'queued' || task.run_at <= now) return null
  return (
    <Tip text={format.dateTime(task.run_at)}>
      <span className="shrink-0 text-xs whitespace-nowrap text-ink-3">
        {t('tasks.starts', { when: format.relative(task.run_at, now) })}
      </span>
    </Tip>
  )
}

/** That it was tried before, which one attempt is not worth saying. */
function Again({ task }: { task: Task }) {
  const { t } = useTranslation()
  const waits = task.status === 'queued'
  if (waits ? task.attempts === 0 : task.attempts < 2) return null
  return (
    <span className={cn('shrink-0 text-xs whitespace-nowrap max-sm:hidden', waits ? 'text-warn' : 'text-ink-3')}>
      {t('tasks.tried', { count: task.attempts })}
    </span>
  )
}

/** Why a task has failed. */
function Cause({ task }: { task: Task }) {
  const { t } = useTranslation()
  if ((task.status !== 'failed' && task.status !== 'dead') || !task.error_class) return null
  const cause = causeOf(task.error_class, t)
  return (
    <Tip text={cause}>
      <span className="hidden max-w-1/2 shrink-0 truncate text-xs text-ink-3 sm:block">{cause}</span>
    </Tip>
  )
}
