import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type ApiKey, api, page } from '@/api/client'
import { health, keys } from '@/api/queries'
import { Badge, type Tone } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Panel } from '@/ui/card'
import { Confirm } from '@/ui/dialog'
import { Ago } from '@/ui/facts'
import { Empty, Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { toast } from '@/ui/toast'
import { NewKey } from './new-key'

const tones: Record<ApiKey['status'], Tone> = { active: 'good', expired: 'warn', revoked: 'idle' }

/** The keys that were created, for those who may create them. */
export function ApiKeys() {
  const { t } = useTranslation()
  // Whoever signed in while there are none has a key of the server's settings.
  const configured = useQuery(health).data?.auth === 'keys'
  const [creating, setCreating] = useState(false)
  const [revoking, setRevoking] = useState<ApiKey>()
  const query = useInfiniteQuery({
    queryKey: keys.apiKeys,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      page<ApiKey>(
        api.GET('/api/runtime/keys', { params: { query: { limit: 50, ...(pageParam ? { cursor: pageParam } : {}) } } }),
      ),
    getNextPageParam: (last) => last.next ?? undefined,
  })
  const list = query.data?.pages.flatMap((p) => p.items) ?? []
  return (
    <Panel
      title={t('keys.title')}
      flush
      actions={
        <Button size="sm" onClick={() => setCreating(true)}>
          <Plus className="size-4" aria-hidden />
          {t('keys.new')}
        </Button>
      }
    >
      <Loaded
        query={query}
        empty={{
          when: () => list.length === 0,
          show: (
            <Empty icon={KeyRound} title={t('keys.none')}>
              {configured ? t('keys.noneButConfigured') : t('keys.noneHint')}
            </Empty>
          ),
        }}
      >
        {() => (
          <Table label={t('keys.title')}>
            <thead>
              <tr>
                <Th>{t('keys.name')}</Th>
                <Th className="max-sm:hidden">{t('keys.state')}</Th>
                <Th className="max-sm:hidden">{t('keys.created')}</Th>
                <Th className="max-sm:hidden">{t('keys.lastUsed')}</Th>
                <Th className="max-sm:hidden">{t('keys.expires')}</Th>
                <Th>
                  <span className="sr-only">{t('keys.revoke')}</span>
                </Th>
              </tr>
            </thead>
            <tbody>
              {list.map((key) => (
                <Row key={key.id} item={key} onRevoke={() => setRevoking(key)} />
              ))}
            </tbody>
          </Table>
        )}
      </Loaded>
      {query.hasNextPage && (
        <Button className="m-4" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t('ui.more')}
        </Button>
      )}
      <NewKey open={creating} onOpenChange={setCreating} />
      <Revoke item={revoking} onClose={() => setRevoking(undefined)} />
    </Panel>
  )
}

function Row({ item, onRevoke }: { item: ApiKey; onRevoke: () => void }) {
  const { t } = useTranslation()
  return (
    <Tr>
      <Td className="max-w-56">
        <div className="truncate font-medium" title={item.name}>
          {item.name}
        </div>
        <div className="truncate text-xs text-ink-3">
          {t(`keys.is.${item.role}`)}
          {item.worker_id !== null && ` · ${t('keys.boundTo', { worker: item.worker_id })}`}
        </div>
        <div className="mt-1 flex flex-wrap items-center gap-x-2 text-xs text-ink-3 sm:hidden">
          <State item={item} />
          {item.expires_at !== null && item.status === 'active' && (
            <span>
              {t('keys.expires')} <Ago at={item.expires_at} />
            </span>
          )}
        </div>
      </Td>
      <Td className="max-sm:hidden">
        <State item={item} />
      </Td>
      <Td className="text-ink-2 max-sm:hidden">
        <Ago at={item.created_at} />
      </Td>
      <Td className="text-ink-2 max-sm:hidden">
        {item.last_used_at === null ? t('keys.unused') : <Ago at={item.last_used_at} />}
      </Td>
      <Td className="text-ink-2 max-sm:hidden">
        {item.expires_at === null ? t('keys.never') : <Ago at={item.expires_at} />}
      </Td>
      <Td className="text-right">
        {item.status === 'active' && (
          <Button look="danger" size="sm" aria-label={t('keys.revokeNamed', { name: item.name })} onClick={onRevoke}>
            {t('keys.revoke')}
          </Button>
        )}
      </Td>
    </Tr>
  )
}

function State({ item }: { item: ApiKey }) {
  const { t } = useTranslation()
  return (
    <>
      <Badge tone={tones[item.status]} dot>
        {t(`keys.stateIs.${item.status}`)}
      </Badge>
      {item.revoked_at !== null && <Ago at={item.revoked_at} className="ml-2 text-xs text-ink-3" />}
    </>
  )
}

function Revoke({ item, onClose }: { item: ApiKey | undefined; onClose: () => void }) {
  const { t } = useTranslation()
  const client = useQueryClient()
  return (
    <Confirm
      open={item !== undefined}
      onOpenChange={(open) => {
        if (!open) onClose()
      }}
      title={t('keys.revokeTitle', { name: item?.name ?? '' })}
      lead={t('keys.revokeLead')}
      action={t('keys.revoke')}
      danger
      run={async () => {
        if (!item) return
        await api.DELETE('/api/runtime/keys/{id}', { params: { path: { id: item.id } } })
        await client.invalidateQueries({ queryKey: keys.apiKeys })
        toast(t('keys.revokedNow'))
      }}
    />
  )
}
