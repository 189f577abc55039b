import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { setLanguage } from '@/i18n'
import { type Language, setTheme, useTheme } from '@/lib/preferences'
import { Menu, MenuChoice } from '@/ui/menu'

const languageNames: { value: Language; label: string }[] = [
  { value: 'en', label: 'English' },
  { value: 'uk', label: 'Українська' },
]

export function LanguageMenu({ trigger }: { trigger: ReactNode }) {
  const { i18n } = useTranslation()
  return (
    <Menu trigger={trigger} open>
      <MenuChoice value={i18n.language as Language} onChange={(l) => void setLanguage(l)} options={languageNames} />
    </Menu>
  )
}

export function ThemeMenu({ trigger }: { trigger: ReactNode }) {
  const { t } = useTranslation()
  return (
    <Menu trigger={trigger} open>
      <MenuChoice
        value={useTheme()}
        onChange={setTheme}
        options={[
          { value: 'system', label: t('app.theme.system') },
          { value: 'light', label: t('app.theme.light') },
          { value: 'dark', label: t('app.theme.dark') },
        ]}
      />
    </Menu>
  )
}
