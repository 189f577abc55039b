import { type QueryClient, queryOptions, useQuery } from '@tanstack/react-query'
import { api, data } from './client'

export const session = queryOptions({
  queryKey: ['session'],
  queryFn: () => data(api.GET('/api/runtime/session')),
  // A session that is used does not run out.
  refetchInterval: 30 * 60_000,
})

/** Whether the server has said that it wants a sign-in first. */
export function needsSignIn(client: QueryClient): boolean {
  const known = client.getQueryData(session.queryKey)
  return known?.auth === 'keys' && known.role === ''
}

/** Whether this person's key only reads: what it may not change is not offered. False until it is known. */
export function useReadsOnly(): boolean {
  const role = useQuery(session).data?.role
  return role === 'viewer' || role === 'worker' || role === 'approver'
}

/** Whether this person's key only decides what runs ask, and sees only that. */
export const useApprovesOnly = () => useQuery(session).data?.role === 'approver'

export const approvesOnly = (client: QueryClient) => client.getQueryData(session.queryKey)?.role === 'approver'

/** Exchanges a key for a session's cookie, which scripts cannot read; the page forgets the key. */
export const signIn = (key: string) => api.POST('/api/runtime/session', { body: { key } })

/** Where a browser signs in at the provider; it comes back to the page `to`. */
export const signInAt = (to: string) => `/api/runtime/session/oidc?to=${encodeURIComponent(to)}`

export const signOut = () => api.DELETE('/api/runtime/session')
