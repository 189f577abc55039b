import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { render } from '@testing-library/react'
import type { ReactElement } from 'react'
import { setLanguage, startI18n } from '@/i18n'
import type { Language } from '@/lib/preferences'

let started: Promise<void> | undefined

/** Draws a component as the application does: with messages, tips and queries. */
export async function show(element: ReactElement, language: Language = 'en') {
  started ??= startI18n()
  await started
  await setLanguage(language, false)
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  return render(<QueryClientProvider client={client}>{element}</QueryClientProvider>)
}
