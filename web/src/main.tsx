import './styles/index.css'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './app/query-client'
import { router } from './app/router'
import { startI18n } from './i18n'
import { watchSystemTheme } from './lib/preferences'
import { live, refreshOnChanges } from './live/live'
import { notifyOfEnds, registerWorker } from './live/notify'

const root = document.getElementById('root')
if (!root) throw new Error('index.html has no #root')

watchSystemTheme()
await startI18n()
refreshOnChanges(queryClient)
live.start(() =>
  queryClient
    .getQueryCache()
    .getAll()
    .some((query) => query.state.dataUpdatedAt > 0),
)
notifyOfEnds()

createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
)

if (import.meta.env.PROD) registerWorker()
