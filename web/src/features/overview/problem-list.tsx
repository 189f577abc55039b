import { useQuery } from '@tanstack/react-query'
import { Link, type LinkProps } from '@tanstack/react-router'
import { ArrowRight, CircleAlert, CircleCheck, TriangleAlert } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import type { Problem, Task } from '@/api/client'
import { problems as problemsQuery } from '@/api/queries'
import { errorClasses } from '@/features/task/error-classes'
import type messages from '@/i18n/en/overview.json'
import { cn } from '@/lib/cn'
import { useFormat, useNow } from '@/lib/format'
import { Card } from '@/ui/card'
import { Ago } from '@/ui/facts'
import { Failure, Skeleton } from '@/ui/states'

/** What is wrong now, or why that is not known. empty: a system without tasks, of which nothing good is said. */
export function Problems({ empty, tasks }: { empty: boolean; tasks: Task[] }) {
  const { data, error, refetch } = useQuery(problemsQuery)
  if (error) return <Failure error={error} retry={() => void refetch()} />
  if (data === undefined) return <Skeleton className="h-16" />
  if (empty && data.problems.length === 0) return null
  return <ProblemList problems={data.problems} tasks={tasks} />
}

/** What is wrong, the worst first, as the server has found it, with the newest tasks that failed; or that nothing is. */
export function ProblemList({ problems, tasks = [] }: { problems: Problem[]; tasks?: Task[] }) {
  const { t } = useTranslation()
  const wrong = problems.filter((p) => p.severity !== 'info')
  if (wrong.length === 0) {
    return (
      <Card className="flex items-center gap-3 px-4 py-3">
        <CircleCheck className="size-5 shrink-0 text-good" aria-hidden />
        <p className="font-medium">{t('overview.fine')}</p>
        <p className="text-ink-2 max-sm:hidden">{t('overview.fineHint')}</p>
      </Card>
    )
  }
  return (
    <section aria-label={t('overview.problems')} className="overflow-hidden rounded-card border bg-surface shadow-card">
      <ul className="divide-y">
        {wrong.map((p) => (
          <Row key={`${p.code} ${p.labels?.join() ?? ''}`} problem={p} tasks={tasks} />
        ))}
      </ul>
    </section>
  )
}

/** A page that the server names, with what it is narrowed to. */
function linkOf(address: string): LinkProps {
  const [to = '/', search] = address.split('?')
  return { to, search: Object.fromEntries(new URLSearchParams(search)) } as LinkProps
}

/** The text of a problem: its code, where that does not stand for two things. */
function kindOf({ code, severity, until = 0 }: Problem, now: number) {
  if (code === 'artifact_storage_unavailable' && severity === 'error') return 'artifact_folder_unusable'
  if (code === 'certificate_expires' && until <= now) return 'certificate_expired'
  return code
}

function Row({ problem: p, tasks }: { problem: Problem; tasks: Task[] }) {
  const { t, i18n } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const bad = p.severity === 'error'
  const Icon = bad ? CircleAlert : TriangleAlert
  // A code that is not known here is said as the server says it.
  const kind = kindOf(p, now)
  const code = (i18n.exists(`overview.problem.${kind}.do`) ? kind : 'other') as keyof typeof messages.problem
  const count = p.count ?? 1
  const names = p.names ?? []
  const rest = Math.max(names.length, p.count ?? 0) - 3
  const values = {
    count,
    n: `${format.number(count)}${p.more ? '+' : ''}`,
    names: names.slice(0, 3).join(', ') + (rest > 0 && names.length > 3 ? ` +${format.number(rest)}` : ''),
    labelled: t('overview.labelled', { count: p.labels?.length ?? 0, labels: p.labels?.join(', ') ?? '' }),
    sentence: p.sentence,
    action: p.action,
    ago: p.since === undefined ? '' : format.duration(Math.max(0, now - p.since)),
    until: p.until === undefined ? '' : format.dateTime(p.until),
    free: p.free_bytes === undefined ? '' : format.bytes(p.free_bytes),
  }
  return (
    <li className={cn('border-l-3', bad ? 'border-l-bad' : 'border-l-warn')}>
      <Link {...linkOf(p.link)} className="flex items-center gap-3 px-4 py-3 hover:bg-sunken/70">
        <Icon className={cn('size-5 shrink-0', bad ? 'text-bad' : 'text-warn')} aria-hidden />
        <span className="min-w-0 flex-1 wrap-anywhere">
          <span className="block font-medium">{t(`overview.problem.${code}.what`, values)}</span>
          <span className="block text-ink-2">{t(`overview.problem.${code}.do`, values)}</span>
        </span>
        <ArrowRight className="size-4 shrink-0 text-ink-3" aria-hidden />
      </Link>
      {p.causes && p.causes.length > 0 && (
        <>
          <Causes causes={p.causes} status={p.code === 'tasks_dead' ? 'dead' : 'failed'} />
          <Failed tasks={tasks.filter((task) => task.status === (p.code === 'tasks_dead' ? 'dead' : 'failed'))} />
        </>
      )}
    </li>
  )
}

/** Why tasks failed, the most frequent first; each leads to those that failed so. */
function Causes({ causes, status }: { causes: NonNullable<Problem['causes']>; status: 'failed' | 'dead' }) {
  const { t } = useTranslation()
  const format = useFormat()
  return (
    <ul aria-label={t('overview.causes')} className="flex flex-wrap gap-1.5 pr-4 pb-3 pl-12">
      {causes.slice(0, 6).map((c) => (
        <li key={c.error_class} className="min-w-0">
          <Link
            {...linkOf(c.error_class ? `/tasks?status=${status}&error_class=${c.error_class}` : `/tasks/${c.task_id}`)}
            className="flex h-7 items-center gap-1.5 rounded-full border px-2.5 text-xs text-ink-2 hover:border-line-strong hover:text-ink"
          >
            <span className="truncate">
              {t(`task.why.${errorClasses.find((k) => k === c.error_class) ?? 'other'}.what`)}
            </span>
            <span className="tabular font-medium text-ink">{format.number(c.count)}</span>
          </Link>
        </li>
      ))}
    </ul>
  )
}

/** The newest tasks that failed, and what to do about each. */
function Failed({ tasks }: { tasks: Task[] }) {
  const { t } = useTranslation()
  if (tasks.length === 0) return null
  return (
    <ul aria-label={t('overview.newestFailed')} className="pr-4 pb-3 pl-12">
      {tasks.slice(0, 3).map((task) => (
        <li key={task.id}>
          <Link
            to="/tasks/$taskId"
            params={{ taskId: task.id }}
            className="-mx-2 flex flex-wrap items-baseline gap-x-3 rounded-md px-2 py-1 text-[13px] hover:bg-sunken"
          >
            <span className="max-w-full truncate font-medium">{task.prompt.slice(0, 120)}</span>
            <span className="min-w-0 flex-1 text-ink-2 max-sm:basis-full">
              {t(`task.why.${errorClasses.find((k) => k === task.error_class) ?? 'other'}.do`)}
            </span>
            <Ago at={task.updated_at} className="text-xs text-ink-3 max-sm:hidden" />
          </Link>
        </li>
      ))}
    </ul>
  )
}
