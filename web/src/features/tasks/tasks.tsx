import { useNavigate, useSearch } from '@tanstack/react-router'
import { ArrowUp, ListChecks } from 'lucide-react'
import { useCallback, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { TaskFilters, TaskView } from '@/app/router'
import { useCommands } from '@/features/workers/commands'
import { useFormat } from '@/lib/format'
import { chosenColumns, rememberColumns } from '@/lib/preferences'
import { Button } from '@/ui/button'
import { Card } from '@/ui/card'
import { Command } from '@/ui/facts'
import { Page } from '@/ui/page'
import { useFirst } from '@/ui/paged'
import { Empty, Failure, SkeletonRows } from '@/ui/states'
import { Bulk } from './bulk'
import { Columns } from './columns'
import { Filters } from './filters'
import { TaskTable } from './task-table'
import { sortedSize, useTasks } from './use-tasks'
import { columnsOf, defaultColumns, sorted } from './view'

export default function Tasks() {
  const { t } = useTranslation()
  const search = useSearch({ from: '/tasks' })
  const { filters, view } = useMemo(() => {
    const { sort, columns, ...filters } = search
    return { filters, view: { ...(sort ? { sort } : {}), ...(columns ? { columns } : {}) } }
  }, [search])
  const [own, setOwn] = useState(() => columnsOf(chosenColumns()))
  const columns = useMemo(() => columnsOf(view.columns?.split(',')) ?? own ?? defaultColumns, [view.columns, own])
  const format = useFormat()
  const navigate = useNavigate()
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [top, setTop] = useState(true)
  const atTop = useCallback(() => scrollY < 80, [])
  const { query, fresh, refresh } = useTasks(filters, atTop, view.sort ? sortedSize : undefined)
  const tasks = useMemo(
    () => sorted(query.data?.pages.flatMap((p) => p.items) ?? [], view.sort, Date.now()),
    [query.data, view.sort],
  )
  const looking = useFirst(query, tasks.length)
  const filtered = Object.keys(filters).length > 0
  const setView = (next: TaskFilters & TaskView) => {
    setChosen(new Set())
    void navigate({ to: '/tasks', search: next, replace: true })
  }
  const more = () => {
    // A page that is asked for ends what else is being read. After an error it would be asked for without end.
    // What comes later would change the order of what is read: a sorted list is one page.
    if (!view.sort && query.hasNextPage && !query.isFetching && !query.isError) void query.fetchNextPage()
  }
  return (
    <Page title={t('tasks.title')}>
      <Filters
        filters={filters}
        view={view}
        columns={
          <Columns
            columns={columns}
            onChange={(next) => {
              rememberColumns(next ?? null)
              setOwn(next)
              const { columns: _, ...rest } = search
              if (view.columns) setView(rest)
            }}
          />
        }
        onChange={setView}
        onMatched={() => void query.refetch()}
      />
      <Bulk tasks={tasks} chosen={chosen} onDone={() => setChosen(new Set())} />
      {fresh > 0 && !top && (
        <Button
          look="primary"
          size="sm"
          className="rise fixed top-16 left-1/2 z-20 -translate-x-1/2 rounded-full shadow-float"
          onClick={() => {
            scrollTo({ top: 0 })
            void refresh()
          }}
        >
          <ArrowUp className="size-3.5" aria-hidden />
          {t('tasks.fresh', { count: fresh })}
        </Button>
      )}
      {query.error && tasks.length === 0 ? (
        <Failure error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Card className="overflow-clip">
          {view.sort && query.hasNextPage && (
            <p role="status" className="border-b bg-sunken px-3 py-2 text-xs text-ink-2">
              {t('tasks.sortedPart', { count: tasks.length, n: format.number(tasks.length) })}
            </p>
          )}
          {query.isPending || looking ? (
            <SkeletonRows rows={12} />
          ) : tasks.length === 0 ? (
            <Empty
              icon={ListChecks}
              title={filtered ? t('tasks.noneFound') : t('tasks.none')}
              action={filtered ? <Button onClick={() => setView({})}>{t('tasks.clear')}</Button> : <FirstTask />}
            >
              {filtered ? t('tasks.noneFoundHint') : t('tasks.noneHint')}
            </Empty>
          ) : (
            <TaskTable
              tasks={tasks}
              columns={columns}
              sort={view.sort}
              onSort={(sort) => {
                const { sort: _, ...rest } = search
                setView(sort ? { ...rest, sort } : rest)
              }}
              chosen={chosen}
              onChoose={setChosen}
              onTop={setTop}
              onEnd={more}
              loadingMore={query.isFetchingNextPage}
            />
          )}
        </Card>
      )}
    </Page>
  )
}

function FirstTask() {
  return <Command text={useCommands().task} />
}
