import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useRouterState } from '@tanstack/react-router'
import {
  Activity,
  BookOpen,
  Boxes,
  Brain,
  CalendarClock,
  ChevronRight,
  KeyRound,
  ListChecks,
  MessagesSquare,
  ScrollText,
  Server,
  Settings,
  ShieldQuestionMark,
} from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { stats, useMembridgeAnswers } from '@/api/queries'
import { useApprovesOnly } from '@/api/session'
import { approvalsQuery } from '@/features/approvals/use-approvals'
import { useFormat } from '@/lib/format'

/** What people use daily first; membridge where there is one. */
const daily = [
  { to: '/', name: 'overview', icon: Activity },
  { to: '/tasks', name: 'tasks', icon: ListChecks },
  { to: '/approvals', name: 'approvals', icon: ShieldQuestionMark },
  { to: '/contexts', name: 'contexts', icon: MessagesSquare },
  { to: '/artifacts', name: 'artifacts', icon: Boxes },
  { to: '/schedules', name: 'schedules', icon: CalendarClock },
  { to: '/workers', name: 'workers', icon: Server },
  { to: '/membridge', name: 'membridge', icon: Brain },
  { to: '/settings', name: 'settings', icon: Settings },
] as const

/** What shows how the runtime works, and what it did. */
const advanced = [
  { to: '/leases', name: 'leases', icon: KeyRound },
  { to: '/audit', name: 'audit', icon: ScrollText },
  { to: '/docs', name: 'docs', icon: BookOpen },
] as const

const row = 'flex h-8.5 items-center gap-2.5 rounded-lg px-2.5 text-[13px] font-medium transition-colors'
const inactive = 'text-ink-2 hover:bg-idle-soft hover:text-ink'
const active = 'bg-accent-soft text-accent-strong'

export function Nav({ onGo }: { onGo?: () => void }) {
  const { t } = useTranslation()
  const counts = useCounts()
  const membridge = useMembridgeAnswers()
  const approves = useApprovesOnly()
  const path = useRouterState({ select: (s) => s.location.pathname })
  const link = ({ to, name, icon: Icon }: (typeof daily)[number] | (typeof advanced)[number]) => (
    <li key={to}>
      <Link
        to={to}
        onClick={onGo}
        activeOptions={{ exact: to === '/' }}
        className={row}
        activeProps={{ className: active }}
        inactiveProps={{ className: inactive }}
      >
        <Icon className="size-4 shrink-0 opacity-80" aria-hidden />
        {t(`app.nav.${name}`)}
        {counts[name] && <span className="tabular ml-auto text-xs font-normal text-ink-3">{counts[name]}</span>}
      </Link>
    </li>
  )
  if (approves) {
    return (
      <nav aria-label={t('app.nav.label')} className="flex-1">
        <ul>{daily.filter(({ name }) => name === 'approvals').map(link)}</ul>
      </nav>
    )
  }
  return (
    <nav aria-label={t('app.nav.label')} className="flex flex-1 flex-col gap-0.5">
      <ul className="flex flex-col gap-0.5">
        {daily.filter(({ name }) => name !== 'membridge' || membridge || path === '/membridge').map(link)}
      </ul>
      <details className="group" open={advanced.some(({ to }) => to === path)}>
        <summary className={`${row} ${inactive} cursor-pointer list-none`}>
          <ChevronRight className="size-4 shrink-0 opacity-80 transition-transform group-open:rotate-90" aria-hidden />
          {t('app.nav.advanced')}
        </summary>
        <ul className="flex flex-col gap-0.5 pt-0.5 pl-4">{advanced.map(link)}</ul>
      </details>
    </nav>
  )
}

/** What is going on, beside the names: unfinished tasks, requests to people, online workers, active leases. */
function useCounts(): Partial<Record<string, string>> {
  const format = useFormat()
  const { data } = useQuery({ ...stats, enabled: !useApprovesOnly() })
  const asked = useInfiniteQuery(approvalsQuery('pending')).data?.pages
  const pending = asked?.flatMap((p) => p.items).length ?? 0
  const approvals = pending > 0 && { approvals: asked?.at(-1)?.next ? `${pending}+` : String(pending) }
  if (!data) return { ...approvals }
  const by = data.tasks.by_status
  const open = (by.queued ?? 0) + (by.leased ?? 0) + (by.running ?? 0)
  return {
    ...approvals,
    ...(open > 0 && { tasks: format.compact(open) }),
    ...(data.workers.total > 0 && { workers: `${data.workers.online}/${data.workers.total}` }),
    ...(data.leases.active > 0 && { leases: format.compact(data.leases.active) }),
  }
}
