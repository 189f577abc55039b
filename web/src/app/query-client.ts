import { QueryClient } from '@tanstack/react-query'
import { ApiError } from '@/api/client'

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the server refused it refuses again; what did not arrive may.
      retry: (count, error) => count < 2 && error instanceof ApiError && (error.offline || error.status >= 500),
      retryDelay: (count) => 500 * 2 ** count,
      refetchOnWindowFocus: true,
    },
  },
})
