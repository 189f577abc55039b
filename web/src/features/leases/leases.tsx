import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Leases() {
  const { t } = useTranslation()
  return <Page title={t('leases.title')}>{null}</Page>
}
