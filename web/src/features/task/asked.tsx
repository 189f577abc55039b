import { useTranslation } from 'react-i18next'
import type { Task } from '@/api/client'
import { Files } from '@/features/new-task/attach'
import { Download } from '@/ui/download'
import { Prose } from '@/ui/prose'
import { ScrollBox } from '@/ui/scroll-box'

/** What was asked, and with which files, above what was answered. */
export function Asked({ task }: { task: Task }) {
  const { t } = useTranslation()
  return (
    <div className="mb-4 rounded-card border border-accent/25 bg-accent-soft/50 px-4 py-3">
      <p className="mb-1 text-xs font-medium text-accent-strong">{t('task.prompt')}</p>
      <ScrollBox label={t('task.prompt')} className="max-h-80 overflow-y-auto">
        <Prose text={task.prompt} />
      </ScrollBox>
      <div className="mt-2 empty:hidden">
        <Files
          files={task.attachments ?? []}
          action={({ name }) => (
            <Download
              from={`/api/runtime/llm-tasks/${task.id}/attachments/${encodeURIComponent(name)}`}
              name={name}
              label={t('task.download', { name })}
            />
          )}
        />
      </div>
    </div>
  )
}
