import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Audit() {
  const { t } = useTranslation()
  return <Page title={t('audit.title')}>{null}</Page>
}
