import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { type FormEvent, useCallback, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError } from '@/api/client'
import { session, signIn, signInAt } from '@/api/session'
import { Logo } from '@/app/logo'
import { sayError } from '@/i18n/said'
import { cn } from '@/lib/cn'
import { live } from '@/live/live'
import { Button, buttonClass } from '@/ui/button'
import { Card } from '@/ui/card'
import { Field, Input } from '@/ui/field'
import { Page } from '@/ui/page'
import { Failure } from '@/ui/states'

/** Where the person wanted to go: a page of this application and nowhere else. */
const pathOf = (to: string | undefined) => (to && /^\/(?![/\\])/.test(to) && to !== '/sign-in' ? to : '/')

export default function SignIn() {
  const { t } = useTranslation()
  const { to, error: refused } = useSearch({ from: '/sign-in' })
  const navigate = useNavigate()
  const client = useQueryClient()
  const [typed, setTyped] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState('')
  // The person may sign in in another tab.
  const asked = useQuery({ ...session, refetchInterval: 15_000, refetchOnWindowFocus: 'always' })
  const now = asked.data
  const provider = now?.oidc
  const needless = now !== undefined && now.auth !== 'keys'
  const unknown = now === undefined && asked.error !== null
  const goOn = useCallback(async () => {
    await client.invalidateQueries()
    await navigate({ href: pathOf(to) })
  }, [client, navigate, to])
  const signedIn = asked.isFetchedAfterMount && now?.auth === 'keys' && now.role !== '' && !refused && !busy
  useEffect(() => {
    if (signedIn) void goOn()
  }, [signedIn, goOn])
  const send = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    try {
      await signIn(typed.trim())
      live.start()
      await goOn()
    } catch (e) {
      setError(
        e instanceof ApiError && !e.offline
          ? e.status === 401
            ? t('signIn.wrong')
            : sayError(e)
          : t('ui.failure.offline'),
      )
    } finally {
      setBusy(false)
    }
  }
  return (
    <div className="mx-auto flex min-h-dvh max-w-md flex-col justify-center px-4">
      <div className="px-2.5 sm:px-4.5 lg:px-6.5">
        <Logo />
      </div>
      <Page
        title={t('signIn.title')}
        lead={unknown ? undefined : needless ? t('signIn.needless') : t('signIn.lead')}
        narrow
      >
        {unknown ? (
          <Failure error={asked.error} retry={() => void asked.refetch()} />
        ) : needless ? (
          <Link to={pathOf(to)} className={buttonClass('primary')}>
            {t('signIn.goOn')}
          </Link>
        ) : (
          <Card className="p-5">
            {refused && (
              <p role="alert" className="mb-4 rounded-lg bg-bad-soft p-3 text-bad text-sm">
                {t(`signIn.refused.${refused}`)}
              </p>
            )}
            {provider && (
              <>
                <a className={cn(buttonClass('primary'), 'w-full')} href={signInAt(pathOf(to))}>
                  {t('signIn.provider', { provider })}
                </a>
                <p className="my-4 text-center text-ink-2 text-sm">{t('signIn.or')}</p>
              </>
            )}
            <form onSubmit={(e) => void send(e)} className="space-y-4">
              <Field label={t('signIn.key')} hint={t('signIn.hint')} error={error || undefined}>
                {(c) => (
                  <Input
                    {...c}
                    type="password"
                    autoComplete="current-password"
                    autoFocus={!provider}
                    required
                    value={typed}
                    onChange={(e) => setTyped(e.target.value)}
                  />
                )}
              </Field>
              <Button type="submit" look={provider ? 'secondary' : 'primary'} busy={busy} className="w-full">
                {t('signIn.submit')}
              </Button>
            </form>
          </Card>
        )}
      </Page>
    </div>
  )
}
