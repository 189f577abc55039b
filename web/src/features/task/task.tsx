import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Task() {
  const { t } = useTranslation()
  return <Page title={t('task.title')}>{null}</Page>
}
