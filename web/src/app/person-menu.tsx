import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { session, signOut } from '@/api/session'
import { setLanguage } from '@/i18n'
import { type Language, setTheme, useTheme } from '@/lib/preferences'
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine } from '@/ui/menu'
import { useSayError } from '@/ui/toast'
import { openHelp } from './shortcuts'

const languageNames: { value: Language; label: string }[] = [
  { value: 'en', label: 'English' },
  { value: 'uk', label: 'Українська' },
]

/** Who one is, what this browser shows, and the way out. */
export default function PersonMenu({ trigger }: { trigger: ReactNode }) {
  const { t, i18n } = useTranslation()
  const navigate = useNavigate()
  const sayError = useSayError()
  const me = useQuery(session).data
  return (
    <Menu trigger={trigger} open>
      {me?.role && (
        <>
          <p className="max-w-60 truncate px-2 pt-1 text-[13px] font-medium">
            {me.auth === 'keys' ? me.name : t('app.person.nobody')}
          </p>
          <p className="px-2 pb-1 text-xs text-ink-3">{t(`keys.is.${me.role}`)}</p>
          <MenuLine />
        </>
      )}
      <MenuItem onSelect={() => void navigate({ to: '/settings' })}>{t('app.nav.settings')}</MenuItem>
      <MenuItem onSelect={openHelp}>{t('app.shortcuts.title')}</MenuItem>
      <MenuLine />
      <MenuLabel>{t('app.language')}</MenuLabel>
      <MenuChoice value={i18n.language as Language} onChange={(l) => void setLanguage(l)} options={languageNames} />
      <MenuLine />
      <MenuLabel>{t('app.theme.label')}</MenuLabel>
      <MenuChoice
        value={useTheme()}
        onChange={setTheme}
        options={[
          { value: 'system', label: t('app.theme.system') },
          { value: 'light', label: t('app.theme.light') },
          { value: 'dark', label: t('app.theme.dark') },
        ]}
      />
      {me?.cookie && (
        <>
          <MenuLine />
          <MenuItem onSelect={() => void signOut().then(() => location.assign('/sign-in'), sayError)}>
            {t('settings.signOut')}
          </MenuItem>
        </>
      )}
    </Menu>
  )
}
