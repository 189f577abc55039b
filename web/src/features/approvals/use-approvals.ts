import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { ApiError, type Approval, api, type Decision, data, page } from '@/api/client'
import { keys } from '@/api/queries'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { toast, useSayError } from '@/ui/toast'

export type Status = Approval['status']
export const statuses = ['pending', 'allowed', 'denied', 'expired', 'cancelled'] as const satisfies Status[]
export const isStatus = (value: unknown): value is Status => statuses.some((s) => s === value)

/** Requests of a status, the newest first, without their input. */
export const approvalsQuery = (status: Status) =>
  infiniteQueryOptions({
    queryKey: [...keys.approvals, status],
    initialPageParam: '',
    queryFn: ({ pageParam: cursor }) =>
      page<Approval>(
        api.GET('/api/runtime/approvals', { params: { query: { status, limit: 20, ...(cursor && { cursor }) } } }),
      ),
    getNextPageParam: (last) => last.next ?? undefined,
  })

/** One request with its whole input. What changes its task changes it. */
export const approvalQuery = (taskId: string, id: string) =>
  queryOptions({
    queryKey: [...keys.task(taskId), 'approval', id],
    queryFn: () => data(api.GET('/api/runtime/approvals/{id}', { params: { path: { id } } })),
  })

/** Decides a request about exactly the input that is shown, and says so, or what was decided before. */
export function useDecide({ id, task_id, input_sha256 }: Approval, onDecided?: () => void) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const sayError = useSayError()
  const format = useFormat()
  const readAgain = () => {
    void client.invalidateQueries({ queryKey: keys.approvals })
    return client.invalidateQueries({ queryKey: keys.task(task_id) })
  }
  return useMutation({
    mutationFn: (decision: Omit<Decision, 'input_sha256'>) =>
      data(api.POST('/api/runtime/approvals/{id}', { params: { path: { id } }, body: { ...decision, input_sha256 } })),
    onSuccess: async (decided) => {
      toast(t(decided.status === 'allowed' ? 'approvals.allowed' : 'approvals.denied'))
      onDecided?.()
      await readAgain()
    },
    onError: async (error) => {
      const first = error instanceof ApiError ? error.decided : undefined
      if (first?.decided_at && first.decided_by) {
        const [is, when] = [t(`approvals.is.${first.status}`), format.relative(first.decided_at, Date.now())]
        const said = t('approvals.already', { is, who: first.decided_by, when })
        toast(first.message ? `${said}: ${say(first.message)}` : said, 'bad')
      } else sayError(error)
      if (error instanceof ApiError && error.status === 409) await readAgain()
    },
  })
}
