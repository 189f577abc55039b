import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Contexts() {
  const { t } = useTranslation()
  return <Page title={t('contexts.title')}>{null}</Page>
}
