import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { CircleAlert, CircleCheck } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError, api, data } from '@/api/client'
import { health as healthQuery, keys, useMembridge } from '@/api/queries'
import { session, signOut } from '@/api/session'
import { ApiKeys } from '@/features/keys/api-keys'
import { useManagesKeys } from '@/features/keys/use-keys'
import { setLanguage } from '@/i18n'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { type Language, setTheme, type Theme, useTheme } from '@/lib/preferences'
import { Button } from '@/ui/button'
import { Fact, Facts, Panel } from '@/ui/card'
import { Ago } from '@/ui/facts'
import { Field, Input, Select } from '@/ui/field'
import { Page } from '@/ui/page'
import { Failure, Loaded } from '@/ui/states'
import { toast, useSayError } from '@/ui/toast'
import { Notifications } from './notifications'

export default function Settings() {
  const { t } = useTranslation()
  const admin = useManagesKeys()
  const membridge = useMembridge()
  return (
    <Page title={t('settings.title')}>
      <div className="grid items-start gap-5 *:min-w-0 xl:grid-cols-2">
        {admin !== false && membridge && <Connection />}
        <div id="server" className="scroll-mt-18">
          <Server />
        </div>
        {admin && (
          <div id="keys" className="scroll-mt-18 xl:col-span-2">
            <ApiKeys />
          </div>
        )}
        <div id="appearance" className="scroll-mt-18">
          <Appearance />
        </div>
        <div id="notify" className="scroll-mt-18">
          <Notifications />
        </div>
      </div>
    </Page>
  )
}

function Connection() {
  const { t } = useTranslation()
  const client = useQueryClient()
  const config = useQuery({ queryKey: keys.config, queryFn: () => data(api.GET('/api/runtime/config')) })
  const [url, setUrl] = useState<string>()
  const [key, setMembridgeKey] = useState('')
  const test = useMutation({ mutationFn: () => data(api.POST('/api/runtime/test-connection')) })
  const save = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/runtime/config', {
          body: { membridge_server_url: url ?? config.data?.membridge_server_url ?? '', admin_key: key },
        }),
      ),
    onSuccess: () => {
      setMembridgeKey('')
      toast(t('settings.saved'))
      void client.invalidateQueries({ queryKey: keys.config })
      test.mutate()
    },
  })
  const problems = new Map(
    save.error instanceof ApiError ? save.error.details.map((d) => [d.field, say(d.message)]) : [],
  )
  const send = (event: FormEvent) => {
    event.preventDefault()
    save.mutate()
  }
  return (
    <Panel title={t('settings.membridge')}>
      <Loaded query={config}>
        {(found) => (
          <form onSubmit={send} className="space-y-4">
            <div className="grid gap-4 sm:grid-cols-2">
              <Field label={t('settings.url')} error={problems.get('membridge_server_url')}>
                {(c) => (
                  <Input
                    {...c}
                    type="url"
                    required
                    value={url ?? found?.membridge_server_url ?? ''}
                    onChange={(e) => setUrl(e.target.value)}
                  />
                )}
              </Field>
              <Field
                label={t('settings.key')}
                error={problems.get('admin_key')}
                hint={
                  found?.admin_key_masked
                    ? t('settings.keySaved', { key: found.admin_key_masked })
                    : t('settings.keyNone')
                }
              >
                {(c) => (
                  <Input
                    {...c}
                    type="password"
                    required
                    autoComplete="off"
                    value={key}
                    onChange={(e) => setMembridgeKey(e.target.value)}
                  />
                )}
              </Field>
            </div>
            {save.error && <Failure error={save.error} />}
            <div className="flex flex-wrap items-center gap-2">
              <Button type="submit" look="primary" busy={save.isPending}>
                {t('settings.save')}
              </Button>
              <Button busy={test.isPending} onClick={() => test.mutate()}>
                {t('settings.test')}
              </Button>
              <span role="status" className="flex min-w-0 items-center gap-1.5 text-[13px]">
                {test.data?.connected && (
                  <>
                    <CircleCheck className="size-4 text-good" aria-hidden />
                    {t('settings.connected')}
                  </>
                )}
                {test.data && !test.data.connected && (
                  <>
                    <CircleAlert className="size-4 shrink-0 text-bad" aria-hidden />
                    <span className="text-bad">{say(test.data.error ?? '')}</span>
                  </>
                )}
                {!test.data && typeof found?.last_test === 'number' && (
                  <span className="text-ink-3">
                    {t('settings.lastTest')} <Ago at={found.last_test} />
                  </span>
                )}
              </span>
            </div>
          </form>
        )}
      </Loaded>
    </Panel>
  )
}

function Server() {
  const { t } = useTranslation()
  const format = useFormat()
  const sayError = useSayError()
  const me = useQuery(session).data
  const query = useQuery(healthQuery)
  return (
    <Panel title={t('settings.server')}>
      <Loaded query={query}>
        {(health) =>
          health && (
            <Facts>
              <Fact name={t('settings.address')}>{location.origin}</Fact>
              <Fact name={t('settings.version')}>{health.version}</Fact>
              <Fact name={t('settings.storage')}>{health.storage === 'sqlite' ? 'SQLite' : 'PostgreSQL'}</Fact>
              <Fact name={t('settings.uptime')}>{format.duration(health.uptime * 1000)}</Fact>
              <Fact name={t('settings.access')}>{t(`settings.auth.${health.auth}`)}</Fact>
              {!health.membridge.disabled && (
                <Fact name={t('settings.membridge')}>
                  {health.membridge.connected ? t('settings.connected') : t('settings.notConnected')}
                  {!health.membridge.connected && health.membridge.lastError && (
                    <span className="block text-xs text-ink-3">{say(health.membridge.lastError)}</span>
                  )}
                </Fact>
              )}
            </Facts>
          )
        }
      </Loaded>
      {me?.cookie && (
        <div className="mt-4 flex flex-wrap items-center gap-3">
          <Button
            onClick={() => {
              signOut().then(() => location.assign('/sign-in'), sayError)
            }}
          >
            {t('settings.signOut')}
          </Button>
          <span className="text-[13px] text-ink-2">
            {t('settings.signedIn', { name: me.name, role: me.role ? t(`keys.is.${me.role}`) : '' })}
          </span>
        </div>
      )}
    </Panel>
  )
}

function Appearance() {
  const { t, i18n } = useTranslation()
  const theme = useTheme()
  return (
    <Panel title={t('settings.appearance')}>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label={t('app.language')}>
          {(c) => (
            <Select
              {...c}
              className="w-full"
              value={i18n.language}
              onChange={(e) => void setLanguage(e.target.value as Language)}
            >
              <option value="en">{'English'}</option>
              <option value="uk">{'Українська'}</option>
            </Select>
          )}
        </Field>
        <Field label={t('app.theme.label')}>
          {(c) => (
            <Select {...c} className="w-full" value={theme} onChange={(e) => setTheme(e.target.value as Theme)}>
              <option value="system">{t('app.theme.system')}</option>
              <option value="light">{t('app.theme.light')}</option>
              <option value="dark">{t('app.theme.dark')}</option>
            </Select>
          )}
        </Field>
      </div>
    </Panel>
  )
}
