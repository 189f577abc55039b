import { Download } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import type { Page } from '@/api/client'
import { Button } from './button'
import { saveAs } from './download'
import { useSayError } from './toast'

/** A file that a person opens, not a backup: the newest ten thousand. */
const most = 10_000

/** Saves a list as a file, the entries as they are: JSON lines, or CSV where the list has a form for it. */
export function Export<T>({
  name,
  read,
  csv,
}: {
  /** Of the file, without its ending. */
  name: string
  read: (cursor: string | undefined, limit: number) => Promise<Page<T>>
  csv?: (items: T[]) => string
}) {
  const { t } = useTranslation()
  const sayError = useSayError()
  const save = async (kind: 'jsonl' | 'csv') => {
    try {
      const items: T[] = []
      let cursor: string | null | undefined
      do {
        const part = await read(cursor ?? undefined, 1000)
        items.push(...part.items)
        cursor = part.next
      } while (cursor && items.length < most)
      const content = kind === 'csv' && csv ? csv(items) : items.map((item) => `${JSON.stringify(item)}\n`).join('')
      saveAs(new Blob([content]), `${name}.${kind}`)
    } catch (error) {
      sayError(error)
    }
  }
  const button = (kind: 'jsonl' | 'csv') => (
    <Button aria-label={t('ui.export', { format: kind.toUpperCase() })} onClick={() => void save(kind)}>
      <Download className="size-4" aria-hidden />
      {kind.toUpperCase()}
    </Button>
  )
  return (
    <>
      {csv && button('csv')}
      {button('jsonl')}
    </>
  )
}
