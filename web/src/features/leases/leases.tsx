import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { KeyRound } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, type Lease, page } from '@/api/client'
import { keys, workers } from '@/api/queries'
import { Badge, type Tone } from '@/ui/badge'
import { Export } from '@/ui/export'
import { Ago, Elapsed, Id } from '@/ui/facts'
import { Select } from '@/ui/field'
import { OfTask } from '@/ui/of-task'
import { Page } from '@/ui/page'
import { Paged } from '@/ui/paged'
import { Td, Th, Tr } from '@/ui/table'

const statuses = ['active', 'released', 'expired', 'failed'] as const
const tones: Record<Lease['status'], Tone> = { active: 'info', released: 'good', expired: 'bad', failed: 'bad' }

export default function Leases() {
  const { t } = useTranslation()
  const [status, setStatus] = useState<Lease['status'] | ''>('')
  const [task, setTask] = useState('')
  const [worker, setWorker] = useState('')
  const fleet = useQuery(workers).data
  const filters = {
    ...(status ? { status } : {}),
    ...(task ? { task_id: task } : {}),
    ...(worker ? { worker_id: worker } : {}),
  }
  const read = (cursor: string | undefined, limit = 50) =>
    page<Lease>(
      api.GET('/api/runtime/leases', {
        params: { query: { ...filters, limit, ...(cursor ? { cursor } : {}) } },
      }),
    )
  return (
    <Page title={t('leases.title')} lead={t('leases.lead')} actions={<Export name="leases" read={read} />}>
      <div className="mb-4 flex flex-wrap gap-2">
        <Select
          aria-label={t('leases.status')}
          value={status}
          onChange={(e) => setStatus(e.target.value as Lease['status'] | '')}
          className="w-[calc(50%-0.25rem)] sm:w-52"
        >
          <option value="">{t('leases.any')}</option>
          {statuses.map((s) => (
            <option key={s} value={s}>
              {t(`leases.is.${s}`)}
            </option>
          ))}
        </Select>
        <Select
          aria-label={t('leases.worker')}
          value={worker}
          onChange={(e) => setWorker(e.target.value)}
          className="w-[calc(50%-0.25rem)] sm:w-52"
        >
          <option value="">{t('tasks.anyWorker')}</option>
          {fleet?.map((w) => (
            <option key={w.id} value={w.id}>
              {w.id}
            </option>
          ))}
        </Select>
        <OfTask onChange={setTask} />
      </div>
      <Paged<Lease>
        label={t('leases.title')}
        queryKey={[...keys.leases, filters]}
        read={(cursor) => read(cursor)}
        icon={KeyRound}
        none={t('leases.none')}
        noneHint={Object.keys(filters).length > 0 ? t('ui.noneMatch') : t('leases.noneHint')}
        head={
          <>
            <Th>{t('leases.status')}</Th>
            <Th>{t('leases.task')}</Th>
            <Th>{t('leases.worker')}</Th>
            <Th className="max-sm:hidden">{t('leases.started')}</Th>
            <Th className="max-sm:hidden">{t('leases.heartbeat')}</Th>
            <Th>{t('leases.expires')}</Th>
            <Th className="text-right max-sm:hidden">{t('leases.epoch')}</Th>
          </>
        }
        row={(lease) => (
          <Tr key={lease.id}>
            <Td>
              <Badge tone={tones[lease.status]} dot live={lease.status === 'active'}>
                {t(`leases.is.${lease.status}`)}
              </Badge>
            </Td>
            <Td>
              <Link
                to="/tasks/$taskId"
                params={{ taskId: lease.task_id }}
                className="text-accent-strong hover:underline"
              >
                <Id id={lease.task_id} />
              </Link>
            </Td>
            <Td className="max-w-48 truncate max-sm:max-w-20">{lease.worker_id}</Td>
            <Td className="text-ink-2 max-sm:hidden">
              <Ago at={lease.started_at} />
            </Td>
            <Td className="text-ink-2 max-sm:hidden">
              <Ago at={lease.last_heartbeat} />
            </Td>
            <Td className="text-ink-2">
              {lease.status === 'active' ? (
                <Ago at={lease.expires_at} />
              ) : (
                <Elapsed from={lease.started_at} to={lease.last_heartbeat} />
              )}
            </Td>
            <Td className="tabular text-right text-ink-2 max-sm:hidden">{lease.epoch}</Td>
          </Tr>
        )}
      />
    </Page>
  )
}
