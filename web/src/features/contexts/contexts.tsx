import { Link } from '@tanstack/react-router'
import { MessagesSquare } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { api, type Context, page } from '@/api/client'
import { keys } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { buttonClass } from '@/ui/button'
import { Ago } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Paged } from '@/ui/paged'
import { Td, Th, Tr } from '@/ui/table'

/** The conversations, the one that was used last first. */
export default function Contexts() {
  const { t } = useTranslation()
  const format = useFormat()
  return (
    <Page title={t('contexts.title')} lead={t('contexts.lead')}>
      <Paged<Context>
        label={t('contexts.title')}
        queryKey={[...keys.contexts, 'list']}
        read={(cursor) =>
          page<Context>(
            api.GET('/api/runtime/contexts', { params: { query: { limit: 50, ...(cursor ? { cursor } : {}) } } }),
          )
        }
        icon={MessagesSquare}
        none={t('contexts.none')}
        noneHint={t('contexts.noneHint')}
        noneAction={
          <Link to="/tasks/new" className={buttonClass('primary')}>
            {t('app.newTask')}
          </Link>
        }
        head={
          <>
            <Th>{t('contexts.one')}</Th>
            <Th className="text-right">{t('contexts.tasks')}</Th>
            <Th className="max-sm:hidden">{t('contexts.worker')}</Th>
            <Th className="text-right max-sm:hidden">{t('contexts.tokens')}</Th>
            <Th className="text-right max-sm:hidden">{t('contexts.spent')}</Th>
            <Th className="text-right">{t('contexts.used')}</Th>
          </>
        }
        row={(c) => (
          <Tr key={c.id}>
            <Td className="w-full max-w-40">
              <Link
                to="/contexts/$contextId"
                params={{ contextId: c.id }}
                className="block truncate font-medium hover:text-accent-strong"
              >
                {c.id}
              </Link>
            </Td>
            <Td className="text-right text-ink-2">
              {c.unfinished > 0 && (
                <Badge tone="info" dot className="mr-2 max-sm:hidden">
                  {t('contexts.unfinished', { count: c.unfinished })}
                </Badge>
              )}
              {format.number(c.tasks)}
            </Td>
            <Td className="max-w-40 truncate text-ink-2 max-sm:hidden">{c.worker_id ?? '–'}</Td>
            <Td className="text-right text-ink-2 max-sm:hidden">{c.tokens ? format.compact(c.tokens) : '–'}</Td>
            <Td className="text-right text-ink-2 max-sm:hidden">{c.cost_usd ? format.money(c.cost_usd) : '–'}</Td>
            <Td className="text-right text-ink-2">
              <Ago at={c.last_used_at} />
            </Td>
          </Tr>
        )}
      />
    </Page>
  )
}
