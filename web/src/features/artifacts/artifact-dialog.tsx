import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { type Artifact, api, data, failureOf } from '@/api/client'
import { keys } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { LongText } from '@/ui/code'
import { Dialog } from '@/ui/dialog'
import { Download } from '@/ui/download'
import { Ago, CopyButton } from '@/ui/facts'
import { JsonTree } from '@/ui/json-tree'
import { Prose } from '@/ui/prose'
import { Loaded } from '@/ui/states'
import { useTypeName } from './type-name'

/** Longer text is saved, not shown. */
const most = 4_000_000

/** Of a compressed text, what is unpacked to be looked at. */
const mostUnpacked = 1_000_000

const isText = (type: string) => /^text\/|json|xml|yaml|javascript|x-sh/.test(type)

/** Events of a run are kept as compressed JSON lines. */
const isPacked = (a: Artifact) =>
  a.media_type === 'application/gzip' && /\.(jsonl|ndjson|txt|log|json|csv|md)\.gz$/.test(pathOf(a))

/** The whole of an artifact, which lists only show the beginning of. */
export function ArtifactDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const { t } = useTranslation()
  const format = useFormat()
  const nameOfType = useTypeName()
  const row = useQuery({
    queryKey: [...keys.artifacts, 'one', id],
    queryFn: () => data(api.GET('/api/runtime/artifacts/{id}', { params: { path: { id } } })),
  })
  const a = row.data
  return (
    <Dialog
      open
      wide
      onOpenChange={onClose}
      title={a ? pathOf(a) || nameOfType(a.type) : t('artifacts.title')}
      lead={
        a && (
          <span className="flex items-center gap-x-3 text-[13px]">
            <span className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1">
              {pathOf(a) && <Badge>{nameOfType(a.type)}</Badge>}
              <span>{format.bytes(a.size)}</span>
              <span className="wrap-anywhere">{a.media_type}</span>
              <Ago at={a.created_at} />
            </span>
            <Download
              from={`/api/runtime/artifacts/${a.id}/content`}
              name={fileNameOf(a)}
              label={t('task.result.download')}
            />
          </span>
        )
      }
    >
      <Loaded query={row}>{(found) => <Content artifact={found} />}</Loaded>
    </Dialog>
  )
}

function Content({ artifact: a }: { artifact: Artifact }) {
  const { t } = useTranslation()
  const packed = isPacked(a)
  const shown = packed || (isText(a.media_type) && a.size <= most)
  const text = useQuery({
    queryKey: [...keys.artifacts, 'content', a.id],
    enabled: shown && a.content === null,
    queryFn: async () => {
      const response = await fetch(`/api/runtime/artifacts/${encodeURIComponent(a.id)}/content`)
      if (!response.ok) throw await failureOf(response)
      return packed && response.body ? unpacked(response.body) : response.text()
    },
  })
  if (!shown) return <p className="text-ink-2">{t('artifacts.noPreview')}</p>
  if (a.content !== null) return <Text text={a.content} json={/json/.test(a.media_type)} />
  return (
    <Loaded query={text}>
      {(found) => (packed ? <Unpacked text={found} /> : <Text text={found} json={/json/.test(a.media_type)} />)}
    </Loaded>
  )
}

/** The beginning of a gzip stream's text, to the end of a line. What follows is not even unpacked. */
export async function unpacked(body: ReadableStream<Uint8Array<ArrayBuffer>>, atMost = mostUnpacked): Promise<string> {
  const reader = body.pipeThrough(new DecompressionStream('gzip')).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text
    text += value
    if (text.length > atMost) {
      void reader.cancel().catch(() => undefined)
      return text.slice(0, text.lastIndexOf('\n', atMost) + 1 || atMost)
    }
  }
}

function Unpacked({ text }: { text: string }) {
  const { t } = useTranslation()
  return (
    <>
      <LongText text={text.trimEnd()} />
      {text.length >= mostUnpacked * 0.9 && <p className="mt-2 text-xs text-ink-3">{t('artifacts.cut')}</p>}
    </>
  )
}

function Text({ text, json }: { text: string; json: boolean }) {
  const { t } = useTranslation()
  if (text === '') return <p className="text-ink-3">{t('task.noOutput')}</p>
  return (
    <div className="relative">
      <CopyButton text={text} className="absolute top-0 right-0 z-10 bg-raised" />
      {json ? <Json text={text} /> : <Prose text={text} />}
    </div>
  )
}

function Json({ text }: { text: string }) {
  try {
    return <JsonTree value={JSON.parse(text)} />
  } catch {
    return <Prose text={text} />
  }
}

/** A file's place in the worker's folder; nothing for anything else. */
export const pathOf = (a: Artifact) => ('path' in a && typeof a.path === 'string' ? a.path : '')

const endings: Record<string, string> = { 'text/plain': '.txt', 'text/markdown': '.md', 'application/json': '.json' }

/** What an artifact is saved under. */
export const fileNameOf = (a: Artifact) =>
  pathOf(a).split('/').at(-1) || `artifact-${a.id.slice(-8)}${endings[a.media_type.split(';')[0] ?? ''] ?? ''}`
