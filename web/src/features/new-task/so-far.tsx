import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { api, data, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { Turns } from '@/features/contexts/turns'
import { ScrollBox } from '@/ui/scroll-box'

/** How many tasks of the context are shown: its page has all. */
const shown = 3

/** What the new task continues: the end of the conversation. */
export function SoFar({ contextId }: { contextId: string }) {
  const { t } = useTranslation()
  const { data: tasks } = useQuery({
    queryKey: [...keys.contexts, contextId, 'end'],
    queryFn: () =>
      data<Task[]>(api.GET('/api/runtime/llm-tasks', { params: { query: { context_id: contextId, limit: shown } } })),
  })
  if (!tasks?.length) return null
  return (
    <section aria-label={t('newTask.soFar')} className="xl:order-last">
      <header className="mb-2 flex items-baseline justify-between gap-3">
        <h2 className="font-medium">{t('newTask.soFar')}</h2>
        <Link
          to="/contexts/$contextId"
          params={{ contextId }}
          className="text-xs font-medium text-accent-strong hover:underline"
        >
          {t('newTask.wholeContext')}
        </Link>
      </header>
      <ScrollBox label={t('newTask.soFar')} className="flex max-h-96 flex-col-reverse overflow-y-auto xl:max-h-[70dvh]">
        <Turns tasks={[...tasks].reverse()} />
      </ScrollBox>
    </section>
  )
}
