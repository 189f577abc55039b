import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Worker } from '@/api/client'
import { useSlots } from '@/features/workers/slots'
import { WorkerBadge } from '@/ui/badge'
import { Ago } from '@/ui/facts'

/** The workers as tiles: who is there, and how full each is. */
export function Fleet({ workers }: { workers: Worker[] }) {
  const { t } = useTranslation()
  const slots = useSlots()
  if (workers.length === 0) return <p className="grid h-52 place-items-center text-ink-3">{t('overview.noWorkers')}</p>
  return (
    <ul className="grid max-h-64 grid-cols-1 gap-2 overflow-y-auto sm:grid-cols-2 xl:grid-cols-1 2xl:grid-cols-2">
      {workers.map((worker) => {
        const all = Math.max(1, worker.capabilities.max_concurrency)
        return (
          <li key={worker.id}>
            <Link
              to="/tasks"
              search={{ worker_id: worker.id }}
              className="block rounded-lg border px-3 py-2.5 hover:border-line-strong"
            >
              <span className="flex items-center justify-between gap-2">
                <span className="truncate font-medium">{worker.id}</span>
                <WorkerBadge worker={worker} />
              </span>
              <span className="mt-2 flex items-center gap-2">
                <span className="h-1.5 flex-1 overflow-hidden rounded-full bg-idle-soft" aria-hidden>
                  <span
                    className="block h-full rounded-full bg-info"
                    style={{ width: `${Math.min(100, (worker.active_leases / all) * 100)}%` }}
                  />
                </span>
                <span className="tabular text-xs text-ink-3">{slots(worker.active_leases, all)}</span>
              </span>
              {worker.status !== 'online' && worker.last_heartbeat !== null && (
                <span className="mt-1 block text-xs text-ink-3">
                  {t('overview.lastSeen')} <Ago at={worker.last_heartbeat} />
                </span>
              )}
            </Link>
          </li>
        )
      })}
    </ul>
  )
}
