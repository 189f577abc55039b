import { useTranslation } from 'react-i18next'
import { Page } from '@/ui/page'

export default function SignIn() {
  const { t } = useTranslation()
  return <Page title={t('signIn.title')}>{null}</Page>
}
