import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function Membridge() {
  const { t } = useTranslation()
  return <Page title={t('membridge.title')}>{null}</Page>
}
