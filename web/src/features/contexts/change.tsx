import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, type Context, data } from '@/api/client'
import { keys } from '@/api/queries'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { Failure } from '@/ui/states'
import { toast, useSayError } from '@/ui/toast'

/** Names and pins a context. */
function useChange(id: string) {
  const client = useQueryClient()
  return {
    mutationFn: (body: { name?: string; pinned?: boolean }) =>
      data(api.PATCH('/api/runtime/contexts/{id}', { params: { path: { id } }, body })),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.contexts }),
  }
}

export function usePin(context: Context) {
  const { t } = useTranslation()
  const sayError = useSayError()
  const change = useChange(context.id)
  const pin = useMutation({
    ...change,
    onSuccess: (now) => {
      toast(t(now?.pinned ? 'contexts.pinnedNow' : 'contexts.unpinnedNow'))
      return change.onSuccess()
    },
    onError: sayError,
  })
  return { busy: pin.isPending, toggle: () => pin.mutate({ pinned: !context.pinned }) }
}

/** Asks what people call a context; its id stays. */
export function Rename({
  context,
  open,
  onOpenChange,
}: {
  context: Context
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  const { t } = useTranslation()
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title={t('contexts.rename')} lead={t('contexts.renameLead')}>
      <Form context={context} onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}

function Form({ context, onDone }: { context: Context; onDone: () => void }) {
  const { t } = useTranslation()
  const change = useChange(context.id)
  const [name, setName] = useState(context.name)
  const save = useMutation({
    ...change,
    onSuccess: async () => {
      await change.onSuccess()
      onDone()
    },
  })
  const send = (event: FormEvent) => {
    event.preventDefault()
    save.mutate({ name })
  }
  return (
    <form onSubmit={send} className="space-y-4">
      <Field label={t('contexts.name')} hint={t('contexts.nameHint', { id: context.id })}>
        {(c) => (
          <Input
            {...c}
            maxLength={200}
            placeholder={context.id}
            value={name}
            onChange={(e) => setName(e.target.value)}
          />
        )}
      </Field>
      {save.error && <Failure error={save.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>{t('ui.cancel')}</Button>
        <Button type="submit" look="primary" busy={save.isPending}>
          {t('contexts.renameDo')}
        </Button>
      </div>
    </form>
  )
}
