import { useInfiniteQuery } from '@tanstack/react-query'
import type { LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { Page as ListPage } from '@/api/client'
import { Button } from './button'
import { Card } from './card'
import { Empty, Loaded } from './states'
import { Table } from './table'

/** A list that is read page by page. */
export function Paged<T>({
  label,
  queryKey,
  read,
  head,
  row,
  icon,
  none,
  noneHint,
  noneAction,
}: {
  label: string
  queryKey: readonly unknown[]
  read: (cursor: string | undefined) => Promise<ListPage<T>>
  head: ReactNode
  row: (item: T) => ReactNode
  icon: LucideIcon
  none: string
  noneHint: string
  /** What to do about it. */
  noneAction?: ReactNode
}) {
  const { t } = useTranslation()
  const query = useInfiniteQuery({
    queryKey,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => read(pageParam),
    getNextPageParam: (last) => last.next ?? undefined,
  })
  const items = query.data?.pages.flatMap((p) => p.items) ?? []
  return (
    <>
      <Card>
        <Loaded
          query={query}
          empty={{
            when: () => items.length === 0,
            show: (
              <Empty icon={icon} title={none} action={noneAction}>
                {noneHint}
              </Empty>
            ),
          }}
        >
          {() => (
            <Table label={label}>
              <thead>
                <tr>{head}</tr>
              </thead>
              <tbody>{items.map(row)}</tbody>
            </Table>
          )}
        </Loaded>
      </Card>
      {query.hasNextPage && (
        <Button className="mt-4" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t('ui.more')}
        </Button>
      )}
    </>
  )
}
