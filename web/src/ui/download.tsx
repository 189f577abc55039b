import { Download as Icon } from 'lucide-react'
import { failureOf } from '@/api/client'
import { keyHeaders } from '@/api/key'
import { IconButton } from './button'
import { useSayError } from './toast'

/** Saves what an address of the API answers. A plain link could not send the key. */
export function Download({ from, name, label }: { from: string; name: string; label: string }) {
  const sayError = useSayError()
  const save = async () => {
    try {
      const response = await fetch(from, { headers: keyHeaders() })
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
