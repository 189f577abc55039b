import { Link } from '@tanstack/react-router'
import { Compass } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { buttonClass } from '@/ui/button'
import { Page } from '@/ui/page'
import { Empty } from '@/ui/states'

export function NotFound() {
  const { t } = useTranslation()
  return (
    <Page title={t('app.notFound.title')}>
      <Empty
        icon={Compass}
        title={t('app.notFound.what')}
        action={
          <Link to="/" className={buttonClass('primary')}>
            {t('app.notFound.home')}
          </Link>
        }
      >
        {t('app.notFound.hint')}
      </Empty>
    </Page>
  )
}
