import { MessageCircleQuestion, MessageSquarePlus, TriangleAlert } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import type { Result, Task } from '@/api/client'
import { useReadsOnly } from '@/api/session'
import { say } from '@/i18n/said'
import { Button } from '@/ui/button'
import { focusComposer } from './composer'
import { errorClasses } from './error-classes'
import { questionOf } from './question'

/** What qualifies a success: tools that were denied, a question that is left. */
export function Notes({ task, result }: { task: Task; result: Result }) {
  const { t } = useTranslation()
  const readsOnly = useReadsOnly()
  const question = task.desired_format === 'text' ? questionOf(result.output) : ''
  const warnings = [...new Map((result.metrics.warnings ?? []).map((w) => [w.text, w])).values()]
  return (
    <>
      {question && (
        <section
          aria-label={t('task.asks.what')}
          className="mb-4 flex flex-wrap items-start gap-3 rounded-card border border-info/30 bg-info-soft px-4 py-3"
        >
          <MessageCircleQuestion className="mt-0.5 size-4 shrink-0 text-info" aria-hidden />
          <div className="min-w-0 flex-1 basis-60">
            <p className="font-medium">{t('task.asks.what')}</p>
            <p className="mt-0.5 text-ink-2 wrap-anywhere">{question}</p>
          </div>
          {!readsOnly && (
            <Button look="primary" size="sm" onClick={focusComposer}>
              <MessageSquarePlus className="size-4" aria-hidden />
              {t('task.asks.answer')}
            </Button>
          )}
        </section>
      )}
      {warnings.length > 0 && (
        <section
          aria-label={t('task.warnings')}
          className="mb-4 flex items-start gap-3 rounded-card border border-warn/30 bg-warn-soft px-4 py-3"
        >
          <TriangleAlert className="mt-0.5 size-4 shrink-0 text-warn" aria-hidden />
          <div className="min-w-0">
            <p className="font-medium">{t('task.warnings')}</p>
            <ul className="mt-0.5 text-ink-2">
              {warnings.map((w) => (
                <li key={w.text} className="wrap-anywhere first-letter:uppercase">
                  {say(w.text)}
                </li>
              ))}
            </ul>
            {warnings.some((w) => w.code === 'permission_denied') && (
              <p className="mt-1.5 text-ink-2">{t('task.why.permission_denied.do')}</p>
            )}
          </div>
        </section>
      )}
    </>
  )
}

/** Why it failed, in the server's words, and what to do about it. */
export function WhyItFailed({ task, message }: { task: Task; message: string | null | undefined }) {
  const { t } = useTranslation()
  const cls = errorClasses.find((k) => k === task.error_class)
  return (
    <div role="alert" className="mb-4 rounded-card border border-bad/30 bg-bad-soft px-4 py-3">
      <p className="font-medium">{cls ? t(`task.why.${cls}.what`) : t('task.why.other.what')}</p>
      {message && (
        <p className="mt-1 font-mono text-xs text-ink-2 wrap-anywhere whitespace-pre-wrap first-letter:uppercase">
          {say(message.slice(0, 2000))}
        </p>
      )}
      <p className="mt-1.5 text-ink-2">{cls ? t(`task.why.${cls}.do`) : t('task.why.other.do')}</p>
    </div>
  )
}
