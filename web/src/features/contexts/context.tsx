import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { MessagesSquare, Pencil, Pin, PinOff } from 'lucide-react'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, data, type Context as Is, page, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { useReadsOnly } from '@/api/session'
import { Composer } from '@/features/task/composer'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Card, Fact, Facts } from '@/ui/card'
import { CopyButton, Id } from '@/ui/facts'
import { Page } from '@/ui/page'
import { Empty, Loaded, Skeleton } from '@/ui/states'
import { Rename, usePin } from './change'
import { Turns } from './turns'

const first = 20

/** One conversation: what was asked and answered, in order. */
export default function Context() {
  const { contextId } = useParams({ strict: false }) as { contextId: string }
  const { t } = useTranslation()
  const query = useInfiniteQuery({
    queryKey: [...keys.contexts, contextId],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      page<Task>(
        api.GET('/api/runtime/llm-tasks', {
          params: { query: { context_id: contextId, limit: first, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    getNextPageParam: (last) => last.next,
  })
  const about = useQuery({
    queryKey: [...keys.contexts, contextId, 'about'],
    queryFn: () => data(api.GET('/api/runtime/contexts/{id}', { params: { path: { id: contextId } } })),
    retry: false,
  })
  const name = about.data?.name
  const tasks = query.data?.pages.flatMap((p) => p.items).reverse() ?? []
  // What was sent is shown, as soon as it is in the list.
  const [sent, setSent] = useState('')
  const shown = tasks.some((task) => task.id === sent)
  useEffect(() => {
    if (shown) scrollTo({ top: document.documentElement.scrollHeight })
  }, [shown])
  return (
    <Page
      title={<span className="wrap-anywhere">{name || contextId}</span>}
      tabTitle={name || contextId}
      beside={<CopyButton text={contextId} label={t('contexts.copyName')} />}
      lead={name ? <span className="wrap-anywhere">{contextId}</span> : t('contexts.lead')}
      actions={about.data && <Actions context={about.data} />}
    >
      <Loaded
        query={query}
        empty={{ when: () => tasks.length === 0, show: <Empty icon={MessagesSquare} title={t('contexts.noTasks')} /> }}
      >
        {() => (
          <div className="grid items-start gap-x-5 *:min-w-0 xl:grid-cols-[minmax(0,1fr)_22rem]">
            <About context={about.data} pending={about.isPending} />
            <div>
              {query.hasNextPage && (
                <Button
                  size="sm"
                  className="mb-4"
                  busy={query.isFetchingNextPage}
                  onClick={() => void query.fetchNextPage()}
                >
                  {t('contexts.earlier')}
                </Button>
              )}
              <Turns tasks={tasks} live />
              <Composer contextId={contextId} onSent={(task) => setSent(task.id)} />
            </div>
          </div>
        )}
      </Loaded>
    </Page>
  )
}

/** What can be done with the conversation. */
function Actions({ context }: { context: Is }) {
  const { t } = useTranslation()
  const [naming, setNaming] = useState(false)
  const { busy, toggle } = usePin(context)
  if (useReadsOnly()) return null
  const Icon = context.pinned ? PinOff : Pin
  return (
    <>
      <Button onClick={() => setNaming(true)}>
        <Pencil className="size-4" aria-hidden />
        {t('contexts.rename')}
      </Button>
      <Button busy={busy} onClick={toggle}>
        <Icon className="size-4" aria-hidden />
        {t(context.pinned ? 'contexts.unpin' : 'contexts.pin')}
      </Button>
      <Rename context={context} open={naming} onOpenChange={setNaming} />
    </>
  )
}

/** The conversation as a whole: who goes on with it, its session, what it used. */
function About({ context: c, pending }: { context: Is | undefined; pending: boolean }) {
  const { t } = useTranslation()
  const format = useFormat()
  if (!c) return pending ? <Skeleton className="mb-4 h-24 xl:order-last" /> : null
  return (
    <Card className="mb-4 px-4 py-3 xl:sticky xl:top-18 xl:order-last">
      <Facts className="sm:max-xl:grid-cols-[minmax(6.5rem,auto)_1fr_minmax(6.5rem,auto)_1fr]">
        <Fact name={t('contexts.tasks')}>{format.number(c.tasks)}</Fact>
        <Fact name={t('contexts.worker')}>
          {c.worker_id ? (
            <Link
              to="/workers/$workerId"
              params={{ workerId: c.worker_id }}
              className="text-accent-strong hover:underline"
            >
              {c.worker_id}
            </Link>
          ) : (
            '–'
          )}
        </Fact>
        <Fact name={t('contexts.session')}>
          {c.session_id ? (
            <span className="inline-flex items-center">
              <Id id={c.session_id} />
              <CopyButton text={c.session_id} label={t('contexts.copySession')} className="-my-1" />
            </span>
          ) : (
            '–'
          )}
        </Fact>
        <Fact name={t('contexts.transcript')}>{c.size ? format.bytes(c.size) : '–'}</Fact>
        <Fact name={t('contexts.tokens')}>{c.tokens ? format.number(c.tokens) : '–'}</Fact>
        <Fact name={t('contexts.spent')}>{c.cost_usd ? format.money(c.cost_usd) : '–'}</Fact>
      </Facts>
    </Card>
  )
}
