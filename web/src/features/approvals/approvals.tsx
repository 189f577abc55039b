import { useInfiniteQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { ShieldQuestionMark } from 'lucide-react'
import { useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from '@/ui/button'
import { Card } from '@/ui/card'
import { Command } from '@/ui/facts'
import { Select } from '@/ui/field'
import { Page } from '@/ui/page'
import { useFirst } from '@/ui/paged'
import { Empty, Loaded } from '@/ui/states'
import { Request, Shown } from './request'
import { approvalsQuery, isStatus, statuses } from './use-approvals'

/** What runs ask people, and what was decided. */
export default function Approvals() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { status = 'pending' } = useSearch({ from: '/approvals' })
  const list = useRef<HTMLUListElement>(null)
  const query = useInfiniteQuery(approvalsQuery(status))
  const items = query.data?.pages.flatMap((p) => p.items) ?? []
  const looking = useFirst(query, items.length)
  const pending = status === 'pending'
  const show = (next: string) =>
    void navigate({
      to: '/approvals',
      search: isStatus(next) && next !== 'pending' ? { status: next } : {},
      replace: true,
    })
  return (
    <Page
      narrow
      title={t('approvals.title')}
      lead={t('approvals.lead')}
      actions={
        <Select
          aria-label={t('approvals.status')}
          value={status}
          onChange={(e) => show(e.target.value)}
          className="w-44"
        >
          {statuses.map((s) => (
            <option key={s} value={s}>
              {t(`approvals.is.${s}`)}
            </option>
          ))}
        </Select>
      }
    >
      <Loaded
        query={looking ? { ...query, data: undefined } : query}
        empty={{
          when: () => items.length === 0,
          show: (
            <Card>
              <Empty icon={ShieldQuestionMark} title={t(pending ? 'approvals.none' : 'approvals.noneSuch')}>
                {pending && (
                  <div className="space-y-3">
                    <p>{t('approvals.noneHint')}</p>
                    <Command text={'bloom run --ask "Bash(git push *)" "Fix the failing test and push the fix"'} />
                  </div>
                )}
              </Empty>
            </Card>
          ),
        }}
      >
        {() => (
          <ul ref={list} tabIndex={-1} aria-label={t('approvals.title')} className="space-y-4 outline-none">
            {items.map((item) => (
              <li key={item.id}>
                {pending ? (
                  // What has the focus goes with the request: the next key press begins at those that are left.
                  <Request taskId={item.task_id} id={item.id} onDecided={() => list.current?.focus()} />
                ) : (
                  <Shown of={item} />
                )}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {query.hasNextPage && !looking && (
        <Button className="mt-4" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t('ui.more')}
        </Button>
      )}
    </Page>
  )
}
