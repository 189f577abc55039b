import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { api, data, type Lease } from '@/api/client'
import { health, keys } from '@/api/queries'
import { useFormat } from '@/lib/format'

const link = 'flex items-center justify-between gap-3 rounded-lg px-1 py-1 hover:bg-sunken/70'

/** What surrounds the workers: how long they keep a lease, and whether membridge answers. */
export function Around() {
  const { t } = useTranslation()
  const format = useFormat()
  const membridge = useQuery(health).data?.membridge
  const { data: leases } = useQuery({
    queryKey: [...keys.leases, 'released'],
    queryFn: () => data(api.GET('/api/runtime/leases', { params: { query: { status: 'released', limit: 100 } } })),
  })
  const typical = medianOf(leases ?? [])
  return (
    <ul className="mt-3 border-t pt-2 text-[13px]">
      <li>
        <Link to="/leases" className={link}>
          <span className="text-ink-2">{t('overview.leaseTime')}</span>
          <span>{typical === null ? '–' : format.duration(typical)}</span>
        </Link>
      </li>
      {membridge?.disabled !== true && (
        <li>
          <Link to="/membridge" className={link}>
            <span className="text-ink-2">{t('app.nav.membridge')}</span>
            <span className={membridge && !membridge.connected ? 'text-warn' : ''}>
              {membridge === undefined ? '–' : membridge.connected ? t('overview.connected') : t('overview.away')}
            </span>
          </Link>
        </li>
      )}
    </ul>
  )
}

/** How long the lease in the middle lasted, in milliseconds. */
function medianOf(leases: Lease[]): number | null {
  const lasted = leases.map((l) => l.last_heartbeat - l.started_at).sort((a, b) => a - b)
  return lasted[Math.floor(lasted.length / 2)] ?? null
}
