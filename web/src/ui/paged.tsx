import { useInfiniteQuery } from '@tanstack/react-query'
import type { LucideIcon } from 'lucide-react'
import { type ReactNode, useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import type { Page as ListPage } from '@/api/client'
import { Button } from './button'
import { Card } from './card'
import { Empty, Loaded } from './states'
import { Table } from './table'

/**
 * Reads on while nothing was found. A page is of a bounded number of rows, so with filters it may
 * be empty although others follow. Returns whether it still looks.
 */
export function useFirst(
  query: { data: unknown; hasNextPage: boolean; isFetching: boolean; isError: boolean; fetchNextPage: () => unknown },
  found: number,
) {
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = query
  const looking = found === 0 && hasNextPage
  // biome-ignore lint/correctness/useExhaustiveDependencies: each page is followed by the next
  useEffect(() => {
    if (looking && !isFetching && !isError) void fetchNextPage()
  }, [data, looking, isFetching, isError, fetchNextPage])
  return looking
}

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
  before,
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
  /** Rows that come first, whatever the list has. */
  before?: ReactNode
}) {
  const { t } = useTranslation()
  const query = useInfiniteQuery({
    queryKey,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => read(pageParam),
    getNextPageParam: (last) => last.next ?? undefined,
  })
  const items = query.data?.pages.flatMap((p) => p.items) ?? []
  const looking = useFirst(query, items.length)
  return (
    <>
      <Card>
        <Loaded
          query={looking ? { ...query, data: undefined } : query}
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
              <tbody>
                {before}
                {items.map(row)}
              </tbody>
            </Table>
          )}
        </Loaded>
      </Card>
      {query.hasNextPage && !looking && (
        <Button className="mt-4" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t('ui.more')}
        </Button>
      )}
    </>
  )
}
