import i18next from 'i18next'
import { initReactI18next } from 'react-i18next'
import { firstLanguage, type Language, rememberLanguage } from '@/lib/preferences'
import type { Messages } from './en'
import { learn, type ServerTexts } from './said'

/** A language is fetched when it is first shown: nobody pays for the other one. */
const load: Record<Language, () => Promise<{ messages: object; server: ServerTexts }>> = {
  en: () => import('./en'),
  uk: () => import('./uk'),
}

async function provide(language: Language) {
  if (i18next.hasResourceBundle(language, 'translation')) return
  const { messages, server } = await load[language]()
  learn(language, server)
  i18next.addResourceBundle(language, 'translation', messages)
}

export async function startI18n() {
  const language = firstLanguage()
  await i18next.use(initReactI18next).init({
    lng: language,
    fallbackLng: false,
    resources: {},
    interpolation: { escapeValue: false }, // React escapes
    react: { useSuspense: false },
  })
  await setLanguage(language, false)
}

export async function setLanguage(language: Language, remember = true) {
  await provide(language)
  await i18next.changeLanguage(language)
  document.documentElement.lang = language
  if (remember) rememberLanguage(language)
}

declare module 'i18next' {
  interface CustomTypeOptions {
    defaultNS: 'translation'
    resources: { translation: Messages }
  }
}
