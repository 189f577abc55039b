import { useQuery } from '@tanstack/react-query'
import { X } from 'lucide-react'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { type TaskStatus, taskStatuses } from '@/api/client'
import { stats, workers } from '@/api/queries'
import type { TaskFilters, TaskView } from '@/app/router'
import { isRange, isSort, ranges, sorts } from '@/app/task-views'
import { causeOf, errorClasses } from '@/features/task/error-classes'
import { cn } from '@/lib/cn'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Select } from '@/ui/field'
import { TextFilter } from '@/ui/text-filter'
import { Matching } from './matching'
import { Saved } from './saved'

const showInRow = (element: HTMLElement | null) => {
  const row = element?.parentElement
  if (element && row && element.offsetLeft + element.offsetWidth > row.clientWidth)
    row.scrollLeft = element.offsetLeft - row.clientWidth / 3
}

/** What the list is narrowed to. It lives in the address. */
export function Filters({
  filters,
  view,
  columns,
  onChange,
  onMatched,
}: {
  filters: TaskFilters
  view: TaskView
  /** The menu of the columns. */
  columns: ReactNode
  onChange: (next: TaskFilters & TaskView) => void
  /** All tasks that match were changed. */
  onMatched: () => void
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const counts = useQuery(stats).data?.tasks.by_status
  const fleet = useQuery(workers).data
  const set = (name: keyof TaskFilters, value: string) => {
    const { [name]: _, ...rest } = { ...filters, ...view }
    onChange(value ? { ...rest, [name]: value } : rest)
  }
  const pill = (value: TaskStatus | '', label: string, count: number | undefined) => (
    <button
      key={value}
      type="button"
      aria-pressed={(filters.status ?? '') === value}
      onClick={() => set('status', value)}
      // On a narrow screen the row scrolls: what is chosen is in sight.
      ref={(filters.status ?? '') === value ? showInRow : undefined}
      className={cn(
        'h-8 shrink-0 rounded-full px-3 text-[13px] font-medium transition-colors',
        (filters.status ?? '') === value ? 'bg-ink text-canvas' : 'text-ink-2 hover:bg-idle-soft',
      )}
    >
      {label}
      {count ? (
        <span
          className={cn('tabular ml-1.5 font-normal', (filters.status ?? '') === value ? 'opacity-75' : 'text-ink-3')}
        >
          {format.compact(count)}
        </span>
      ) : null}
    </button>
  )
  return (
    <div className="mb-4 space-y-3">
      <fieldset aria-label={t('tasks.status')} className="-mx-1 flex min-w-0 gap-0.5 overflow-x-auto px-1 pb-0.5">
        {pill('', t('tasks.all'), undefined)}
        {taskStatuses.map((s) => pill(s, t(`ui.status.${s}`), counts?.[s]))}
      </fieldset>
      <div className="flex flex-wrap items-center gap-2">
        <TextFilter name="q" value={filters.q ?? ''} onChange={(v) => set('q', v)} label={t('tasks.search')} search />
        <TextFilter
          name="agent_slug"
          value={filters.agent_slug ?? ''}
          onChange={(v) => set('agent_slug', v)}
          label={t('tasks.agent')}
        />
        <TextFilter
          name="context_id"
          value={filters.context_id ?? ''}
          onChange={(v) => set('context_id', v)}
          label={t('tasks.context')}
        />
        <Select
          aria-label={t('tasks.worker')}
          value={filters.worker_id ?? ''}
          onChange={(e) => set('worker_id', e.target.value)}
          className="w-[calc(50%-0.25rem)] sm:w-52"
        >
          <option value="">{t('tasks.anyWorker')}</option>
          {filters.worker_id && !fleet?.some((w) => w.id === filters.worker_id) && (
            <option value={filters.worker_id}>{filters.worker_id}</option>
          )}
          {fleet?.map((w) => (
            <option key={w.id} value={w.id}>
              {w.id}
            </option>
          ))}
        </Select>
        {(filters.error_class || filters.status === 'failed' || filters.status === 'dead') && (
          <Select
            aria-label={t('tasks.cause')}
            value={filters.error_class ?? ''}
            onChange={(e) => set('error_class', e.target.value)}
            className="w-[calc(50%-0.25rem)] sm:w-64"
          >
            <option value="">{t('tasks.anyCause')}</option>
            {causes(filters.error_class).map((c) => (
              <option key={c} value={c}>
                {causeOf(c, t)}
              </option>
            ))}
          </Select>
        )}
        <TextFilter
          name="label"
          value={filters.label ?? ''}
          onChange={(v) => set('label', v)}
          label={t('tasks.label')}
        />
        <Select
          aria-label={t('tasks.range')}
          value={filters.within ?? ''}
          onChange={(e) => set('within', isRange(e.target.value) ? e.target.value : '')}
          className="w-[calc(50%-0.25rem)] sm:w-44"
        >
          <option value="">{t('tasks.anyTime')}</option>
          {Object.keys(ranges)
            .filter(isRange)
            .map((range) => (
              <option key={range} value={range}>
                {t(`tasks.within.${range}`)}
              </option>
            ))}
        </Select>
        {/* A narrow screen has no heads of columns to press. */}
        <Select
          aria-label={t('tasks.sort.label')}
          value={view.sort ?? ''}
          onChange={(e) => {
            const { sort: _, ...rest } = { ...filters, ...view }
            onChange(isSort(e.target.value) ? { ...rest, sort: e.target.value } : rest)
          }}
          className="w-[calc(50%-0.25rem)] sm:hidden"
        >
          <option value="">{t('tasks.sort.newest')}</option>
          {sorts.map((sort) => (
            <option key={sort} value={sort}>
              {t(`tasks.sort.${sort}`)}
            </option>
          ))}
        </Select>
        <Saved view={{ ...filters, ...view }} onChange={onChange} />
        {columns}
        <Matching filters={filters} onDone={onMatched} />
        {Object.keys(filters).length + Object.keys(view).length > 0 && (
          <Button look="ghost" onClick={() => onChange({})}>
            <X className="size-4" aria-hidden />
            {t('tasks.clear')}
          </Button>
        )}
      </div>
    </div>
  )
}

/** Why tasks fail, and what is chosen although it is not known here. */
const causes = (chosen: string | undefined): string[] =>
  chosen && !errorClasses.some((k) => k === chosen) ? [chosen, ...errorClasses] : [...errorClasses]
