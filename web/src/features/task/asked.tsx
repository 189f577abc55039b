import { useTranslation } from 'react-i18next'
import { Prose } from '@/ui/prose'
import { ScrollBox } from '@/ui/scroll-box'

/** What was asked, above what was answered. */
export function Asked({ prompt }: { prompt: string }) {
  const { t } = useTranslation()
  return (
    <div className="mb-4 rounded-card border border-accent/25 bg-accent-soft/50 px-4 py-3">
      <p className="mb-1 text-xs font-medium text-accent-strong">{t('task.prompt')}</p>
      <ScrollBox label={t('task.prompt')} className="max-h-80 overflow-y-auto">
        <Prose text={prompt} />
      </ScrollBox>
    </div>
  )
}
