import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Settings() {
  const { t } = useTranslation()
  return <Page title={t('settings.title')}>{null}</Page>
}
