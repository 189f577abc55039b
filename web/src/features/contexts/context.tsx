import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Context() {
  const { t } = useTranslation()
  return <Page title={t('contexts.one')}>{null}</Page>
}
