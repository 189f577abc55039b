import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function NewTask() {
  const { t } = useTranslation()
  return <Page title={t('newTask.title')}>{null}</Page>
}
