import { useTranslation } from 'react-i18next'
import type messages from '@/i18n/en/audit.json'

/** What an action of the audit is called; its code where it is not known here. */
export function useActionName() {
  const { t, i18n } = useTranslation()
  return (action: string) =>
    i18n.exists(`audit.actions.${action}`) ? t(`audit.actions.${action as keyof typeof messages.actions}`) : action
}
