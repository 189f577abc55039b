import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Artifacts() {
  const { t } = useTranslation()
  return <Page title={t('artifacts.title')}>{null}</Page>
}
