import { Download as Icon } from 'lucide-react'
import { failureOf } from '@/api/client'
import { IconButton } from './button'
import { useSayError } from './toast'

/** Saves what an address of the API answers; a refusal is said, not saved. */
export function Download({
  from,
  name,
  label,
  accept,
}: {
  from: string
  name: string
  label: string
  /** The media type that is asked for, where the address answers with several. */
  accept?: string
}) {
  const sayError = useSayError()
  const save = async () => {
    try {
      const response = await fetch(from, accept ? { headers: { Accept: accept } } : {})
      if (!response.ok) throw await failureOf(response)
      saveAs(await response.blob(), name)
    } catch (error) {
      sayError(error)
    }
  }
  return (
    <IconButton label={label} small onClick={() => void save()}>
      <Icon className="size-4" aria-hidden />
    </IconButton>
  )
}

export function saveAs(blob: Blob, name: string) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
