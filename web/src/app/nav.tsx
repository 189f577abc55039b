import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import {
  Activity,
  BookOpen,
  Boxes,
  Brain,
  KeyRound,
  ListChecks,
  type LucideIcon,
  MessagesSquare,
  ScrollText,
  Server,
  Settings,
} from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { stats, useMembridge } from '@/api/queries'
import { useFormat } from '@/lib/format'

const groups = [
  {
    name: 'work',
    items: [
      { to: '/', name: 'overview', icon: Activity },
      { to: '/tasks', name: 'tasks', icon: ListChecks },
      { to: '/contexts', name: 'contexts', icon: MessagesSquare },
    ],
  },
  {
    name: 'fleet',
    items: [
      { to: '/workers', name: 'workers', icon: Server },
      { to: '/membridge', name: 'membridge', icon: Brain },
    ],
  },
  {
    name: 'records',
    items: [
      { to: '/artifacts', name: 'artifacts', icon: Boxes },
      { to: '/audit', name: 'audit', icon: ScrollText },
      { to: '/leases', name: 'leases', icon: KeyRound },
    ],
  },
] as const

const row = 'flex h-8.5 items-center gap-2.5 rounded-lg px-2.5 text-[13px] font-medium transition-colors'
const inactive = 'text-ink-2 hover:bg-idle-soft hover:text-ink'
const active = 'bg-accent-soft text-accent-strong'

export function Nav({ onGo }: { onGo?: () => void }) {
  const { t } = useTranslation()
  const counts = useCounts()
  const membridge = useMembridge()
  return (
    <nav aria-label={t('app.nav.label')} className="flex flex-1 flex-col gap-4">
      {groups.map((group) => (
        <div key={group.name}>
          <p className="px-2.5 pb-1 text-2xs font-medium text-ink-3">{t(`app.nav.${group.name}`)}</p>
          <ul className="flex flex-col gap-0.5">
            {group.items
              .filter(({ name }) => membridge || name !== 'membridge')
              .map(({ to, name, icon }) => (
                <li key={to}>
                  <Link
                    to={to}
                    onClick={onGo}
                    activeOptions={{ exact: to === '/' }}
                    className={row}
                    activeProps={{ className: active }}
                    inactiveProps={{ className: inactive }}
                  >
                    <NavIcon icon={icon} />
                    {t(`app.nav.${name}`)}
                    {counts[name] && (
                      <span className="tabular ml-auto text-xs font-normal text-ink-3">{counts[name]}</span>
                    )}
                  </Link>
                </li>
              ))}
          </ul>
        </div>
      ))}
      <ul className="mt-auto flex flex-col gap-0.5 pt-2">
        <li>
          <Link
            to="/docs"
            onClick={onGo}
            className={row}
            activeProps={{ className: active }}
            inactiveProps={{ className: inactive }}
          >
            <NavIcon icon={BookOpen} />
            {t('app.nav.docs')}
          </Link>
        </li>
        <li>
          <Link
            to="/settings"
            onClick={onGo}
            className={row}
            activeProps={{ className: active }}
            inactiveProps={{ className: inactive }}
          >
            <NavIcon icon={Settings} />
            {t('app.nav.settings')}
          </Link>
        </li>
      </ul>
    </nav>
  )
}

const NavIcon = ({ icon: Icon }: { icon: LucideIcon }) => <Icon className="size-4 shrink-0 opacity-80" aria-hidden />

/** What is going on, beside the names: unfinished tasks, online workers, active leases. */
function useCounts(): Partial<Record<string, string>> {
  const format = useFormat()
  const { data } = useQuery(stats)
  if (!data) return {}
  const by = data.tasks.by_status
  const open = (by.queued ?? 0) + (by.leased ?? 0) + (by.running ?? 0)
  return {
    ...(open > 0 && { tasks: format.compact(open) }),
    ...(data.workers.total > 0 && { workers: `${data.workers.online}/${data.workers.total}` }),
    ...(data.leases.active > 0 && { leases: format.compact(data.leases.active) }),
  }
}
