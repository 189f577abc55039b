import { useQuery } from '@tanstack/react-query'
import { ChevronDown, ListFilter } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type TasksMatched } from '@/api/client'
import { useReadsOnly } from '@/api/session'
import type { TaskFilters } from '@/app/router'
import { causeOf } from '@/features/task/error-classes'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Confirm } from '@/ui/dialog'
import { Menu, MenuItem } from '@/ui/menu'
import { Failure, Skeleton } from '@/ui/states'
import { toast } from '@/ui/toast'
import { conditionsOf } from './view'

type Act = 'cancel' | 'requeue'

const ask = (
  act: Act,
  body: ReturnType<typeof conditionsOf> & { dry_run?: boolean; next?: string },
): Promise<TasksMatched> =>
  data(
    act === 'cancel'
      ? api.POST('/api/runtime/llm-tasks/cancel-matching', { body })
      : api.POST('/api/runtime/llm-tasks/requeue-matching', { body }),
  )

/** Cancels or requeues everything that the filters match, loaded or not. */
export function Matching({ filters, onDone }: { filters: TaskFilters; onDone: () => void }) {
  const { t } = useTranslation()
  const readsOnly = useReadsOnly()
  const [act, setAct] = useState<Act>()
  if (readsOnly || Object.keys(filters).length === 0) return null
  return (
    <>
      <Menu
        align="start"
        trigger={
          <Button>
            <ListFilter className="size-4" aria-hidden />
            {t('tasks.matching.label')}
            <ChevronDown className="size-4 text-ink-3" aria-hidden />
          </Button>
        }
      >
        <MenuItem onSelect={() => setAct('requeue')}>{t('tasks.matching.requeue')}</MenuItem>
        <MenuItem danger onSelect={() => setAct('cancel')}>
          {t('tasks.matching.cancel')}
        </MenuItem>
      </Menu>
      {act && <Ask act={act} filters={filters} onClose={() => setAct(undefined)} onDone={onDone} />}
    </>
  )
}

/** Says how many there are before anything is done, and changes them batch by batch. */
function Ask({
  act,
  filters,
  onClose,
  onDone,
}: {
  act: Act
  filters: TaskFilters
  onClose: () => void
  onDone: () => void
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const [changed, setChanged] = useState(0)
  // What is asked about stays as it was asked, although time goes on.
  const [conditions] = useState(() => conditionsOf(filters))
  const counted = useQuery({
    queryKey: ['matching', act, filters],
    queryFn: () => ask(act, { ...conditions, dry_run: true }),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY, // what is asked about stays as it was asked
  })
  const count = counted.data?.matched ?? 0
  const many = Boolean(counted.data?.next)
  const n = many ? t('tasks.matching.orMore', { n: format.number(count) }) : format.number(count)
  const run = async () => {
    let sum = 0
    let next = ''
    try {
      do {
        const part = await ask(act, { ...conditions, ...(next ? { next } : {}) })
        sum += part.changed
        next = part.next
        setChanged(sum)
      } while (next)
    } finally {
      if (sum > 0) {
        const said = { count: sum, n: format.number(sum) }
        toast(act === 'cancel' ? t('tasks.matching.cancelled', said) : t('tasks.matching.requeued', said))
        onDone()
      }
    }
  }
  const title = { count, n }
  return (
    <Confirm
      open
      onOpenChange={onClose}
      title={
        !counted.data
          ? t(`tasks.matching.${act}`)
          : act === 'cancel'
            ? t('tasks.matching.cancelTitle', title)
            : t('tasks.matching.requeueTitle', title)
      }
      lead={act === 'cancel' ? t('tasks.matching.cancelLead') : t('tasks.matching.requeueLead')}
      action={act === 'cancel' ? t('tasks.bulk.cancelDo', { count }) : t('tasks.bulk.requeueDo', { count })}
      danger={act === 'cancel'}
      disabled={!counted.data || (count === 0 && !many)}
      run={run}
    >
      {counted.isPending && <Skeleton className="mb-4 h-5" />}
      {counted.error && <Failure error={counted.error} retry={() => void counted.refetch()} className="mb-4" />}
      <ul className="mb-4 space-y-1 text-[13px]">
        {Object.entries(filters).map(([name, value]) => (
          <li key={name} className="flex gap-2">
            <span className="text-ink-3">{t(`tasks.matching.by.${name as keyof TaskFilters}`)}</span>
            <span className="min-w-0 font-medium wrap-anywhere">
              {name === 'status'
                ? t(`ui.status.${filters.status ?? 'queued'}`)
                : name === 'error_class'
                  ? causeOf(value, t)
                  : name === 'within' && filters.within
                    ? t(`tasks.within.${filters.within}`)
                    : value}
            </span>
          </li>
        ))}
      </ul>
      {changed > 0 && (
        <p role="status" className="mb-4 text-[13px] text-ink-2">
          {t('tasks.matching.soFar', { n: format.number(changed) })}
        </p>
      )}
    </Confirm>
  )
}
