import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Overview() {
  const { t } = useTranslation()
  return <Page title={t('overview.title')}>{null}</Page>
}
