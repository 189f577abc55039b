import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { api, data } from '@/api/client'
import { keys } from '@/api/queries'
import { toast, useSayError } from '@/ui/toast'

export const schedulesQuery = queryOptions({
  queryKey: keys.schedules,
  queryFn: () => data(api.GET('/api/runtime/schedules')),
})

export const scheduleQuery = (name: string) =>
  queryOptions({
    queryKey: [...keys.schedules, name],
    queryFn: () => data(api.GET('/api/runtime/schedules/{name}', { params: { path: { name } } })),
    retry: false,
  })

/** Starts a schedule's task now, pauses and resumes it, and says what became of that. */
export function useScheduleActions(name: string) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const sayError = useSayError()
  const params = { params: { path: { name } } }
  const done = (text: string) => () => {
    toast(text)
    void client.invalidateQueries({ queryKey: keys.schedules })
  }
  const run = useMutation({
    mutationFn: () => data(api.POST('/api/runtime/schedules/{name}/run', params)),
    onSuccess: done(t('schedules.started')),
    onError: sayError,
  })
  const pause = useMutation({
    mutationFn: () => data(api.POST('/api/runtime/schedules/{name}/pause', params)),
    onSuccess: done(t('schedules.pausedNow')),
    onError: sayError,
  })
  const resume = useMutation({
    mutationFn: () => data(api.POST('/api/runtime/schedules/{name}/resume', params)),
    onSuccess: done(t('schedules.resumedNow')),
    onError: sayError,
  })
  const remove = async () => {
    await api.DELETE('/api/runtime/schedules/{name}', params)
    client.removeQueries({ queryKey: [...keys.schedules, name] })
    await client.invalidateQueries({ queryKey: keys.schedules, exact: true })
  }
  return { run, pause, resume, remove }
}
