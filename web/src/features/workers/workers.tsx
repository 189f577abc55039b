import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Workers() {
  const { t } = useTranslation()
  return <Page title={t('workers.title')}>{null}</Page>
}
