import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { EllipsisVertical, MessagesSquare, Pin } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, type Context, data, isTaskStatus, page } from '@/api/client'
import { keys } from '@/api/queries'
import { useReadsOnly } from '@/api/session'
import { useFormat } from '@/lib/format'
import { Badge, TaskBadge } from '@/ui/badge'
import { buttonClass } from '@/ui/button'
import { Ago } from '@/ui/facts'
import { Menu, MenuItem } from '@/ui/menu'
import { Page } from '@/ui/page'
import { Paged } from '@/ui/paged'
import { Td, Th, Tr } from '@/ui/table'
import { TextFilter } from '@/ui/text-filter'
import { Rename, usePin } from './change'

/** The most pinned contexts that are shown before the others. */
const mostPinned = 100

/** The conversations: those that are pinned, then the one that was used last first. */
export default function Contexts() {
  const { t } = useTranslation()
  const { q } = useSearch({ from: '/contexts' })
  const navigate = useNavigate()
  const match = q ? { q } : {}
  const pinned = useQuery({
    queryKey: [...keys.contexts, 'pinned', match],
    queryFn: () =>
      data(api.GET('/api/runtime/contexts', { params: { query: { ...match, pinned: true, limit: mostPinned } } })),
  }).data
  const first = new Set(pinned?.map((c) => c.id))
  return (
    <Page title={t('contexts.title')} lead={t('contexts.lead')}>
      <div className="mb-4 flex flex-wrap items-center gap-x-4 gap-y-2">
        <TextFilter
          name="q"
          value={q ?? ''}
          onChange={(text) => void navigate({ to: '/contexts', search: text ? { q: text } : {}, replace: true })}
          label={t('contexts.search')}
          search
        />
        {q && (
          <Link to="/tasks" search={{ q }} className="text-[13px] font-medium text-accent-strong hover:underline">
            {t('contexts.searchTasks')}
          </Link>
        )}
      </div>
      <Paged<Context>
        label={t('contexts.title')}
        queryKey={[...keys.contexts, 'list', match]}
        read={(cursor) =>
          page<Context>(
            api.GET('/api/runtime/contexts', {
              params: { query: { ...match, limit: 50, ...(cursor ? { cursor } : {}) } },
            }),
          )
        }
        icon={MessagesSquare}
        none={q ? t('contexts.noneFound') : t('contexts.none')}
        noneHint={q ? t('contexts.noneFoundHint') : t('contexts.noneHint')}
        noneAction={
          !q && (
            <Link to="/tasks/new" className={buttonClass('primary')}>
              {t('app.newTask')}
            </Link>
          )
        }
        head={
          <>
            <Th>{t('contexts.one')}</Th>
            <Th>{t('contexts.status')}</Th>
            <Th className="text-right max-md:hidden">{t('contexts.tasks')}</Th>
            <Th className="max-lg:hidden">{t('contexts.worker')}</Th>
            <Th className="text-right max-lg:hidden">{t('contexts.tokens')}</Th>
            <Th className="text-right max-md:hidden">{t('contexts.spent')}</Th>
            <Th className="text-right max-sm:hidden">{t('contexts.used')}</Th>
            <Th>
              <span className="sr-only">{t('schedules.actionsHead')}</span>
            </Th>
          </>
        }
        before={pinned?.map((c) => <Row key={c.id} context={c} />)}
        row={(c) => (first.has(c.id) ? null : <Row key={c.id} context={c} />)}
      />
    </Page>
  )
}

function Row({ context: c }: { context: Context }) {
  const { t } = useTranslation()
  const format = useFormat()
  return (
    <Tr>
      <Td className="w-full max-w-40">
        <span className="flex items-center gap-1.5">
          {c.pinned && (
            <>
              <Pin className="size-3.5 shrink-0 text-accent-strong" aria-hidden />
              <span className="sr-only">{t('contexts.pinned')}</span>
            </>
          )}
          <Link
            to="/contexts/$contextId"
            params={{ contextId: c.id }}
            className="block truncate font-medium hover:text-accent-strong"
          >
            {c.name || c.id}
          </Link>
          {c.name && <span className="truncate text-xs text-ink-3 max-sm:hidden">{c.id}</span>}
        </span>
        {c.last_prompt && <span className="block truncate text-xs text-ink-3">{c.last_prompt}</span>}
        <span className="block text-2xs text-ink-3 sm:hidden">
          <Ago at={c.last_used_at} />
        </span>
      </Td>
      <Td>{isTaskStatus(c.last_status) && <TaskBadge status={c.last_status} />}</Td>
      <Td className="text-right text-ink-2 max-md:hidden">
        {c.unfinished > 1 && (
          <Badge tone="info" className="mr-2">
            {t('contexts.unfinished', { count: c.unfinished })}
          </Badge>
        )}
        {format.number(c.tasks)}
      </Td>
      <Td className="max-w-40 truncate text-ink-2 max-lg:hidden">{c.worker_id ?? '–'}</Td>
      <Td className="text-right text-ink-2 max-lg:hidden">{c.tokens ? format.compact(c.tokens) : '–'}</Td>
      <Td className="text-right text-ink-2 max-md:hidden">{c.cost_usd ? format.money(c.cost_usd) : '–'}</Td>
      <Td className="text-right text-ink-2 max-sm:hidden">
        <Ago at={c.last_used_at} />
      </Td>
      <Td className="w-12 text-right max-sm:px-1">
        <ContextMenu context={c} />
      </Td>
    </Tr>
  )
}

function ContextMenu({ context }: { context: Context }) {
  const { t } = useTranslation()
  const [naming, setNaming] = useState(false)
  const { toggle } = usePin(context)
  if (useReadsOnly()) return null
  return (
    <>
      <Menu
        trigger={
          <button
            type="button"
            aria-label={t('contexts.actions', { name: context.name || context.id })}
            className={`${buttonClass('ghost', 'icon')} -mr-2`}
          >
            <EllipsisVertical className="size-4" aria-hidden />
          </button>
        }
      >
        <MenuItem onSelect={() => setNaming(true)}>{t('contexts.rename')}</MenuItem>
        <MenuItem onSelect={toggle}>{t(context.pinned ? 'contexts.unpin' : 'contexts.pin')}</MenuItem>
      </Menu>
      <Rename context={context} open={naming} onOpenChange={setNaming} />
    </>
  )
}
