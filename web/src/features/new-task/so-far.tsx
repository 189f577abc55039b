import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { MessageCircleQuestion } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { api, data, type Task } from '@/api/client'
import { keys } from '@/api/queries'
import { Turns } from '@/features/contexts/turns'
import { questionOf } from '@/features/task/question'
import { ScrollBox } from '@/ui/scroll-box'

/** How many tasks of the context are shown: its page has all. */
const shown = 3

/** What the new task continues: the end of the conversation, and the question that it answers. */
export function SoFar({ contextId, answers }: { contextId: string; answers: string | undefined }) {
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
      {answers && <Question taskId={answers} />}
    </section>
  )
}

function Question({ taskId }: { taskId: string }) {
  const { data: results } = useQuery({
    queryKey: [...keys.task(taskId), 'results'],
    queryFn: () => data(api.GET('/api/runtime/llm-tasks/{id}/results', { params: { path: { id: taskId } } })),
  })
  const question = questionOf(results?.[0]?.output)
  if (!question) return null
  return (
    <p className="mt-4 flex items-start gap-3 rounded-card border border-info/30 bg-info-soft px-4 py-3 wrap-anywhere">
      <MessageCircleQuestion className="mt-0.5 size-4 shrink-0 text-info" aria-hidden />
      {question}
    </p>
  )
}
