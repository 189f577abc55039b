import { useNavigate, useSearch } from '@tanstack/react-router'
import { ArrowUp, ListChecks } from 'lucide-react'
import { useCallback, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { TaskFilters } from '@/app/router'
import { useCommands } from '@/features/workers/commands'
import { Button } from '@/ui/button'
import { Card } from '@/ui/card'
import { Command } from '@/ui/facts'
import { Page } from '@/ui/page'
import { useFirst } from '@/ui/paged'
import { Empty, Failure, SkeletonRows } from '@/ui/states'
import { Bulk } from './bulk'
import { Filters } from './filters'
import { TaskTable } from './task-table'
import { useTasks } from './use-tasks'

export default function Tasks() {
  const { t } = useTranslation()
  const filters = useSearch({ from: '/tasks' })
  const navigate = useNavigate()
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [top, setTop] = useState(true)
  const atTop = useCallback(() => scrollY < 80, [])
  const { query, fresh, refresh } = useTasks(filters, atTop)
  const tasks = useMemo(() => query.data?.pages.flatMap((p) => p.items) ?? [], [query.data])
  const looking = useFirst(query, tasks.length)
  const filtered = Object.keys(filters).length > 0
  const setFilters = (next: TaskFilters) => {
    setChosen(new Set())
    void navigate({ to: '/tasks', search: next, replace: true })
  }
  const more = () => {
    // A page that is asked for ends what else is being read. After an error it would be asked for without end.
    if (query.hasNextPage && !query.isFetching && !query.isError) void query.fetchNextPage()
  }
  return (
    <Page title={t('tasks.title')}>
      <Filters filters={filters} onChange={setFilters} onMatched={() => void query.refetch()} />
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
          {query.isPending || looking ? (
            <SkeletonRows rows={12} />
          ) : tasks.length === 0 ? (
            <Empty
              icon={ListChecks}
              title={filtered ? t('tasks.noneFound') : t('tasks.none')}
              action={filtered ? <Button onClick={() => setFilters({})}>{t('tasks.clear')}</Button> : <FirstTask />}
            >
              {filtered ? t('tasks.noneFoundHint') : t('tasks.noneHint')}
            </Empty>
          ) : (
            <TaskTable
              tasks={tasks}
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
