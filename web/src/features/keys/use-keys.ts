import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, data, type KeySpec } from '@/api/client'
import { keys } from '@/api/queries'
import { session, signIn } from '@/api/session'

/** Whether this person may create and revoke keys; undefined until it is known. */
export function useManagesKeys(): boolean | undefined {
  const me = useQuery(session).data
  return me && me.role === 'admin'
}

/** Creates a key. The answer holds the key itself: it is kept nowhere but in the component that asked. */
export function useCreateKey() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async (body: KeySpec) => {
      const made = await data(api.POST('/api/runtime/keys', { body }))
      // The first key ends development mode: without a session the page would ask for a key before this one is copied.
      if (made.role === 'admin' && client.getQueryData(session.queryKey)?.auth === 'development') await signIn(made.key)
      return made
    },
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: keys.apiKeys })
      if (made.role === 'admin') void client.invalidateQueries({ queryKey: session.queryKey })
    },
    gcTime: 0,
  })
}
