import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Tasks() {
  const { t } = useTranslation()
  return <Page title={t('tasks.title')}>{null}</Page>
}
