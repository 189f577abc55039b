import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CalendarClock, Plus } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Schedule } from '@/api/client'
import { useReadsOnly } from '@/api/session'
import { useFormat } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Card } from '@/ui/card'
import { Dialog } from '@/ui/dialog'
import { Ago } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Empty, Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { ScheduleForm } from './form'
import { ScheduleMenu } from './menu'
import { schedulesQuery } from './use-schedules'
import { sayWhen } from './when'

/** What starts tasks by the clock. */
export default function Schedules() {
  const { t } = useTranslation()
  const readsOnly = useReadsOnly()
  const query = useQuery(schedulesQuery)
  const [adding, setAdding] = useState(false)
  const add = !readsOnly && (
    <Button look="primary" onClick={() => setAdding(true)}>
      <Plus className="size-4" aria-hidden />
      {t('schedules.add')}
    </Button>
  )
  return (
    <Page title={t('schedules.title')} lead={t('schedules.lead')} actions={query.data?.length !== 0 && add}>
      <Card>
        <Loaded
          query={query}
          empty={{
            when: (list) => !list?.length,
            show: (
              <Empty icon={CalendarClock} title={t('schedules.none')} action={add}>
                {t('schedules.noneHint')}
              </Empty>
            ),
          }}
        >
          {(list) => (
            <Table label={t('schedules.title')}>
              <thead>
                <tr>
                  <Th>{t('schedules.one')}</Th>
                  <Th className="max-md:hidden">{t('schedules.when')}</Th>
                  <Th>{t('schedules.next')}</Th>
                  <Th className="max-md:hidden">{t('schedules.last')}</Th>
                  <Th>
                    <span className="sr-only">{t('schedules.actionsHead')}</span>
                  </Th>
                </tr>
              </thead>
              <tbody>
                {list?.map((s) => (
                  <Row key={s.name} schedule={s} />
                ))}
              </tbody>
            </Table>
          )}
        </Loaded>
      </Card>
      <Dialog open={adding} onOpenChange={setAdding} title={t('schedules.add')} lead={t('schedules.addLead')} wide>
        <ScheduleForm onDone={() => setAdding(false)} />
      </Dialog>
    </Page>
  )
}

function Row({ schedule }: { schedule: Schedule }) {
  const { t } = useTranslation()
  const format = useFormat()
  const last = schedule.recent[0]
  const when = sayWhen(schedule, t, format)
  const zone = schedule.every_sec ? '' : schedule.time_zone
  return (
    <Tr>
      <Td className="w-full max-w-40">
        <Link
          to="/schedules/$name"
          params={{ name: schedule.name }}
          className="block truncate font-medium hover:text-accent-strong"
        >
          {schedule.name}
        </Link>
        <span className="block truncate text-xs text-ink-3 max-md:hidden">{schedule.task.prompt.slice(0, 200)}</span>
        <span className="block truncate text-xs text-ink-3 md:hidden">{when}</span>
      </Td>
      <Td className="max-md:hidden">
        {when}
        {zone && <span className="block text-xs text-ink-3">{zone}</span>}
      </Td>
      <Td>
        <Next schedule={schedule} />
      </Td>
      <Td className="text-ink-2 max-md:hidden">
        {last ? (
          last.task_id ? (
            <Link
              to="/tasks/$taskId"
              params={{ taskId: last.task_id }}
              className="hover:text-accent-strong hover:underline"
            >
              <Ago at={last.at} />
            </Link>
          ) : (
            <span className="inline-flex items-center gap-2">
              <Ago at={last.at} />
              <Badge tone="warn">{t('schedules.skipped')}</Badge>
            </span>
          )
        ) : (
          t('schedules.never')
        )}
      </Td>
      <Td className="w-12 text-right">
        <ScheduleMenu schedule={schedule} />
      </Td>
    </Tr>
  )
}

/** When it starts its next task. */
export function Next({ schedule }: { schedule: Schedule }) {
  const { t } = useTranslation()
  if (schedule.paused) return <Badge tone="warn">{t('schedules.paused')}</Badge>
  return schedule.next_at ? <Ago at={schedule.next_at} /> : t('schedules.never')
}
