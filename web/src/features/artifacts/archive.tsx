import { FolderDown } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { buttonClass } from '@/ui/button'

/** Saves all that filters match as one archive, which the browser writes as it comes. */
export function DownloadAll({ filters, small }: { filters: { task_id?: string; type?: string }; small?: boolean }) {
  const { t } = useTranslation()
  return (
    <a
      href={`/api/runtime/artifacts/archive?${new URLSearchParams(filters)}`}
      download="artifacts.zip"
      title={t('artifacts.archive')}
      className={buttonClass('secondary', small ? 'sm' : 'md')}
    >
      <FolderDown className="size-4" aria-hidden />
      {t('artifacts.downloadAll')}
    </a>
  )
}
