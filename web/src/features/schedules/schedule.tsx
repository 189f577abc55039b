import { useQueries, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { Pause, Play } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Schedule as Is } from '@/api/client'
import { task as taskQuery } from '@/api/queries'
import { useReadsOnly } from '@/api/session'
import { useFormat } from '@/lib/format'
import { Badge, TaskBadge } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Fact, Facts, Panel } from '@/ui/card'
import { Ago, Elapsed } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Prose } from '@/ui/prose'
import { Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { ScheduleMenu } from './menu'
import { scheduleQuery, useScheduleActions } from './use-schedules'
import { sayWhen } from './when'

/** How many of the last times are shown at first. */
const first = 10

/** One schedule: its next times, and what became of the last ones. */
export default function Schedule() {
  const { name } = useParams({ strict: false }) as { name: string }
  const { t } = useTranslation()
  const navigate = useNavigate()
  const query = useQuery(scheduleQuery(name))
  const { run, pause, resume } = useScheduleActions(name)
  const readsOnly = useReadsOnly()
  const schedule = query.data
  return (
    <Page
      title={<span className="wrap-anywhere">{name}</span>}
      tabTitle={name}
      beside={schedule?.paused && <Badge tone="warn">{t('schedules.paused')}</Badge>}
      actions={
        schedule &&
        !readsOnly && (
          <>
            {schedule.paused ? (
              <Button busy={resume.isPending} onClick={() => resume.mutate()}>
                <Play className="size-4" aria-hidden />
                {t('schedules.resume')}
              </Button>
            ) : (
              <Button busy={pause.isPending} onClick={() => pause.mutate()}>
                <Pause className="size-4" aria-hidden />
                {t('schedules.pause')}
              </Button>
            )}
            <Button look="primary" busy={run.isPending} onClick={() => run.mutate()}>
              <Play className="size-4" aria-hidden />
              {t('schedules.run')}
            </Button>
            <ScheduleMenu schedule={schedule} onRemoved={() => void navigate({ to: '/schedules' })} />
          </>
        )
      }
    >
      <Loaded query={query}>
        {(is) =>
          is && (
            <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,1fr)_26rem]">
              <div className="space-y-4">
                <Panel title={t('newTask.prompt')}>
                  <Prose text={is.task.prompt} />
                </Panel>
                <Recent schedule={is} />
              </div>
              <div className="space-y-4 max-xl:row-start-1">
                <Upcoming schedule={is} />
                <About schedule={is} />
              </div>
            </div>
          )
        }
      </Loaded>
    </Page>
  )
}

/** The next times, in words and in the schedule's time zone. */
function Upcoming({ schedule }: { schedule: Is }) {
  const { t } = useTranslation()
  const format = useFormat()
  return (
    <Panel title={t('schedules.upcoming')}>
      {schedule.upcoming.length === 0 ? (
        <p className="text-ink-2">{schedule.paused ? t('schedules.pausedHint') : t('schedules.noMore')}</p>
      ) : (
        <ol className="space-y-1.5 text-[13px]">
          {schedule.upcoming.map((at) => (
            <li key={at} className="flex items-baseline justify-between gap-4">
              <span className="first-letter:uppercase">{format.dayTime(at, schedule.time_zone ?? 'UTC')}</span>
              <Ago at={at} className="text-xs text-ink-3" />
            </li>
          ))}
        </ol>
      )}
    </Panel>
  )
}

function About({ schedule }: { schedule: Is }) {
  const { t } = useTranslation()
  const format = useFormat()
  return (
    <Panel title={t('schedules.about')}>
      <Facts>
        <Fact name={t('schedules.when')}>{sayWhen(schedule, t, format)}</Fact>
        {!schedule.every_sec && <Fact name={t('schedules.zone')}>{schedule.time_zone}</Fact>}
        <Fact name={t('schedules.overlap')}>{t(`schedules.overlaps.${schedule.overlap ?? 'skip'}`)}</Fact>
        <Fact name={t('schedules.catchUp')}>{t(`schedules.catchUps.${schedule.catch_up ?? 'one'}`)}</Fact>
        <Fact name={t('newTask.agent')}>{schedule.task.agent_slug}</Fact>
        <Fact name={t('newTask.context')}>
          {schedule.task.context_id.includes('{{') ? (
            t('schedules.contextNew')
          ) : (
            <Link
              to="/contexts/$contextId"
              params={{ contextId: schedule.task.context_id }}
              className="text-accent-strong hover:underline"
            >
              {schedule.task.context_id}
            </Link>
          )}
        </Fact>
        <Fact name={t('schedules.by')}>{schedule.created_by}</Fact>
        <Fact name={t('schedules.created')}>
          <Ago at={schedule.created_at} />
        </Fact>
      </Facts>
    </Panel>
  )
}

/** What became of the last times: a task, or why there is none. */
function Recent({ schedule }: { schedule: Is }) {
  const { t } = useTranslation()
  const format = useFormat()
  const [all, setAll] = useState(false)
  const shown = all ? schedule.recent : schedule.recent.slice(0, first)
  const tasks = useQueries({
    queries: shown.map((o) => ({ ...taskQuery(o.task_id ?? ''), enabled: Boolean(o.task_id), retry: false })),
  })
  return (
    <Panel title={t('schedules.recent')} flush>
      {shown.length === 0 ? (
        <p className="px-4 py-8 text-center text-ink-2">{t('schedules.noRuns')}</p>
      ) : (
        <Table label={t('schedules.recent')}>
          <thead>
            <tr>
              <Th>{t('schedules.due')}</Th>
              <Th>{t('schedules.outcome')}</Th>
              <Th className="text-right max-sm:hidden">{t('tasks.columns.duration')}</Th>
              <Th className="text-right max-sm:hidden">{t('tasks.columns.cost')}</Th>
            </tr>
          </thead>
          <tbody>
            {shown.map((o, i) => {
              const task = tasks[i]?.data
              return (
                <Tr key={`${o.at} ${o.task_id ?? ''}`}>
                  <Td>
                    <Ago at={o.at} />
                    {o.manual && <span className="ml-2 text-xs text-ink-3">{t('schedules.manual')}</span>}
                  </Td>
                  <Td wrap>
                    {o.task_id ? (
                      <Link to="/tasks/$taskId" params={{ taskId: o.task_id }} className="inline-flex hover:underline">
                        {task ? <TaskBadge status={task.status} /> : t('schedules.theTask')}
                      </Link>
                    ) : (
                      <span className="text-ink-2">
                        {t(`schedules.skips.${o.skipped ?? 'missed'}`)}
                        {o.count > 1 && ` ${t('schedules.times', { count: o.count })}`}
                      </span>
                    )}
                  </Td>
                  <Td className="text-right text-ink-2 max-sm:hidden">
                    {task?.started_at ? (
                      <Elapsed from={task.started_at} to={endOf(task)} />
                    ) : (
                      <span aria-hidden>{'–'}</span>
                    )}
                  </Td>
                  <Td className="text-right text-ink-2 max-sm:hidden">
                    {task?.usage ? format.money(task.usage.cost_usd ?? 0) : <span aria-hidden>{'–'}</span>}
                  </Td>
                </Tr>
              )
            })}
          </tbody>
        </Table>
      )}
      {!all && schedule.recent.length > first && (
        <div className="border-t p-2">
          <Button size="sm" look="ghost" onClick={() => setAll(true)}>
            {t('ui.more')}
          </Button>
        </div>
      )}
    </Panel>
  )
}

const ended = ['completed', 'failed', 'dead', 'cancelled']
const endOf = (task: { status: string; updated_at: number }) => (ended.includes(task.status) ? task.updated_at : null)
