import type { ErrorComponentProps } from '@tanstack/react-router'
import { RotateCw } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError } from '@/api/client'
import { useLiveState } from '@/live/live'
import { Button } from '@/ui/button'
import { Page } from '@/ui/page'
import { Failure } from '@/ui/states'

/** A part of the application that cannot be fetched is the server's absence, not a mistake of the page. */
const isMissing = (error: unknown) => /dynamically imported module|module script/i.test(String(error))

/** A page that could not be loaded or drawn. It comes by itself once the server is back. */
export function PageFailure({ error }: ErrorComponentProps) {
  const { t } = useTranslation()
  const state = useLiveState()
  const was = useRef(state)
  useEffect(() => {
    if (isMissing(error) && was.current !== 'live' && state === 'live') location.reload()
    was.current = state
  }, [error, state])
  return (
    <Page title={t('app.pageFailed')}>
      <Failure error={isMissing(error) ? new ApiError('', 0, 'unreachable') : error} />
      <Button className="mt-4" onClick={() => location.reload()}>
        <RotateCw className="size-4" aria-hidden />
        {t('app.reload')}
      </Button>
    </Page>
  )
}
