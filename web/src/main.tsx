import './styles/index.css'
import { hashKey, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { needsSignIn, session } from './api/session'
import { queryClient } from './app/query-client'
import { router } from './app/router'
import { startI18n } from './i18n'
import { watchSystemTheme } from './lib/preferences'
import { live, refreshOnChanges } from './live/live'
import { notifyOfEnds, registerWorker } from './live/notify'

const root = document.getElementById('root')
if (!root) throw new Error('index.html has no #root')

watchSystemTheme()
// Without a sign-in every answer would be a refusal, so that is asked first. A server that is slow to say is not waited for.
const known = queryClient.prefetchQuery({ ...session, retry: false })
await Promise.all([startI18n(), Promise.race([known, new Promise((resolve) => setTimeout(resolve, 1000))])])
refreshOnChanges(queryClient)
void known.then(() => live.start(readBefore, needsSignIn(queryClient)))
notifyOfEnds()

function readBefore() {
  return queryClient
    .getQueryCache()
    .findAll({ predicate: (query) => query.queryHash !== hashKey(session.queryKey) })
    .some((query) => query.state.dataUpdatedAt > 0)
}

createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
)

if (import.meta.env.PROD) registerWorker()
