import { useQuery } from '@tanstack/react-query'
import { Paperclip, X } from 'lucide-react'
import { type ClipboardEvent, type DragEvent, type ReactNode, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError } from '@/api/client'
import { health } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { Button, IconButton } from '@/ui/button'
import { Failure } from '@/ui/states'
import { fileName } from './file-name'

const most = 20

/** What a form needs to send files with a task: spread `target` on it, show the button and the files. */
export function useAttach(first: File[] = []) {
  const limit = useQuery(health).data?.max_attachments ?? 0
  const [files, setFiles] = useState(first)
  const [error, setError] = useState<ApiError>()
  const [over, setOver] = useState(false)
  const change = (next: File[]) => {
    setError(undefined)
    setFiles(next)
  }
  const add = (more: File[]) => {
    const next = [...files]
    for (const file of more) {
      const name = fileName(
        file.name,
        next.map((f) => f.name),
      )
      next.push(new File([file], name, { type: file.type }))
    }
    // As the server would say it after the upload.
    if (next.length > most) setError(new ApiError(`A task may have at most ${most} files`, 400, 'invalid_request'))
    else if (next.reduce((sum, f) => sum + f.size, 0) > limit) {
      const mib = Math.floor(limit / 2 ** 20)
      const said = `The files of a task may have at most ${mib} MiB together on this server`
      setError(new ApiError(said, 413, 'too_large'))
    } else change(next)
  }
  /** Takes the files of a paste or a drop; text goes where it always goes. */
  const take = (event: ClipboardEvent | DragEvent, from: DataTransfer) => {
    const taken = [...from.items]
      .filter((item) => item.kind === 'file' && !item.webkitGetAsEntry()?.isDirectory)
      .flatMap((item) => item.getAsFile() ?? [])
    if (taken.length === 0) return
    event.preventDefault()
    add(taken)
  }
  const holdsFiles = (event: DragEvent) => event.dataTransfer.types.includes('Files')
  return {
    files,
    error,
    add,
    allowed: limit > 0,
    remove: (file: File) => change(files.filter((f) => f !== file)),
    clear: () => change([]),
    target:
      limit === 0
        ? {}
        : {
            'data-over': over || undefined,
            onPaste: (event: ClipboardEvent) => {
              const { types } = event.clipboardData
              // Cells and formatted text come with a picture of themselves.
              if (!(types.includes('text/plain') && types.includes('text/html'))) take(event, event.clipboardData)
            },
            onDragOver: (event: DragEvent) => {
              if (!holdsFiles(event)) return
              event.preventDefault()
              setOver(true)
            },
            onDragLeave: (event: DragEvent) => {
              if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false)
            },
            onDrop: (event: DragEvent) => {
              setOver(false)
              if (holdsFiles(event)) event.preventDefault() // a folder would replace the page
              take(event, event.dataTransfer)
            },
          },
  }
}

type Attach = ReturnType<typeof useAttach>

/** How a form looks while files are dragged over it. */
export const overClass = 'data-over:outline-2 data-over:outline-dashed data-over:outline-accent'

export function AttachButton({ attach, text }: { attach: Attach; text?: boolean }) {
  const { t } = useTranslation()
  const input = useRef<HTMLInputElement>(null)
  if (!attach.allowed) return null
  const choose = () => input.current?.click()
  return (
    <>
      {text ? (
        <Button size="sm" onClick={choose}>
          <Paperclip className="size-4" aria-hidden />
          {t('newTask.attach')}
        </Button>
      ) : (
        <IconButton label={t('newTask.attach')} onClick={choose}>
          <Paperclip className="size-4" aria-hidden />
        </IconButton>
      )}
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(e) => {
          attach.add([...(e.target.files ?? [])])
          e.target.value = '' // the same file can be chosen again
        }}
      />
    </>
  )
}

/** The chosen files, and why others were not taken. */
export function Attaching({ attach, className }: { attach: Attach; className?: string }) {
  const { t } = useTranslation()
  if (attach.files.length === 0 && !attach.error) return null
  return (
    <div className={className}>
      {attach.error && <Failure error={attach.error} className="mb-2 last:mb-0" />}
      <Files
        files={attach.files}
        action={(file) => (
          <IconButton small label={t('newTask.detach', { name: file.name })} onClick={() => attach.remove(file)}>
            <X className="size-4" aria-hidden />
          </IconButton>
        )}
      />
    </div>
  )
}

/** Files by name and size, each with what can be done with it. */
export function Files<T extends { name: string; size: number }>({
  files,
  action,
}: {
  files: T[]
  action: (file: T) => ReactNode
}) {
  const { t } = useTranslation()
  const format = useFormat()
  if (files.length === 0) return null
  return (
    <ul aria-label={t('newTask.attached')} className="flex flex-wrap gap-1.5">
      {files.map((file) => (
        <li
          key={file.name}
          className="flex h-8 max-w-full min-w-0 items-center gap-1.5 rounded-lg border bg-surface pr-0.5 pl-2.5 text-xs"
        >
          <span className="truncate font-medium">{file.name}</span>
          <span className="shrink-0 text-ink-3">{format.bytes(file.size)}</span>
          {action(file)}
        </li>
      ))}
    </ul>
  )
}
