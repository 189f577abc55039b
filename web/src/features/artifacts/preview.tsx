import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type Artifact, failureOf } from '@/api/client'
import { keys } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { CodeBlock, LongText } from '@/ui/code'
import { CopyButton } from '@/ui/facts'
import { JsonTree } from '@/ui/json-tree'
import { Prose } from '@/ui/prose'
import { Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { rowsOf } from './csv'
import { type Kind, kindOf, pathOf } from './kind'

/** Longer content is saved, not shown. */
const most: Record<Kind, number> = {
  image: 20_000_000,
  html: 4_000_000,
  json: 4_000_000,
  csv: 4_000_000,
  markdown: 4_000_000,
  text: 4_000_000,
  packed: Number.POSITIVE_INFINITY, // only its beginning is read
  other: 1_000_000,
}

/** Of a compressed text, what is unpacked to be looked at. */
const mostUnpacked = 1_000_000

const addressOf = (a: Artifact) => `/api/runtime/artifacts/${encodeURIComponent(a.id)}/content`

/** The content as far as it can be shown. Nothing in it runs: HTML is in a frame without scripts, network and our origin. */
export function Preview({ artifact: a }: { artifact: Artifact }) {
  const { t } = useTranslation()
  const kind = kindOf(a)
  const [broken, setBroken] = useState(false)
  if (a.size === 0) return <p className="text-ink-3">{t('task.noOutput')}</p>
  if (a.size > most[kind] || broken) return <p className="text-ink-2">{t('artifacts.noPreview')}</p>
  if (kind === 'image')
    return (
      <img
        src={addressOf(a)}
        alt={pathOf(a)}
        onError={() => setBroken(true)}
        className="mx-auto max-h-[60dvh] rounded-lg border bg-white object-contain"
      />
    )
  if (kind === 'html')
    return (
      <iframe
        sandbox=""
        src={`${addressOf(a)}?view=1`}
        title={pathOf(a)}
        className="h-[60dvh] w-full rounded-lg border bg-white"
      />
    )
  return <Text artifact={a} kind={kind} />
}

function Text({ artifact: a, kind }: { artifact: Artifact; kind: Kind }) {
  const { t } = useTranslation()
  const query = useQuery({
    queryKey: [...keys.artifacts, 'content', a.id],
    enabled: a.content === null,
    queryFn: async () => {
      const response = await fetch(addressOf(a))
      if (!response.ok) throw await failureOf(response)
      if (kind === 'packed' && response.body) return unpacked(response.body)
      return kind === 'other' ? textIn(await response.arrayBuffer()) : response.text()
    },
  })
  if (a.content !== null) return <Shown text={a.content} artifact={a} kind={kind} />
  return (
    <Loaded query={query}>
      {(text) =>
        text === null ? (
          <p className="text-ink-2">{t('artifacts.noPreview')}</p>
        ) : (
          <Shown text={text} artifact={a} kind={kind} />
        )
      }
    </Loaded>
  )
}

/** The text that bytes are; nothing if they are none. */
function textIn(bytes: ArrayBuffer): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return text.includes('\0') ? null : text
  } catch {
    return null
  }
}

function Shown({ text, artifact: a, kind }: { text: string; artifact: Artifact; kind: Kind }) {
  const { t } = useTranslation()
  if (kind === 'packed')
    return (
      <>
        <LongText text={text.trimEnd()} />
        {text.length >= mostUnpacked * 0.9 && <p className="mt-2 text-xs text-ink-3">{t('artifacts.cut')}</p>}
      </>
    )
  if (kind === 'csv') return <Csv text={text} label={pathOf(a)} />
  if (kind === 'text' || kind === 'other')
    return text.length > 50_000 ? (
      <LongText text={text} />
    ) : (
      <CodeBlock text={text} limit={2000} language={/\.(\w+)$/.exec(pathOf(a))?.[1]?.toLowerCase() ?? ''} />
    )
  return (
    <div className="relative">
      <CopyButton text={text} className="absolute top-0 right-0 z-10 bg-raised" />
      {kind === 'json' ? <Json text={text} /> : <Prose text={text} />}
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

const mostRows = 500

function Csv({ text, label }: { text: string; label: string }) {
  const { t } = useTranslation()
  const format = useFormat()
  const rows = rowsOf(text, mostRows + 2)
  const [head = [], ...rest] = rows
  return (
    <>
      <div className="max-h-[60dvh] overflow-auto rounded-lg border">
        <Table label={label}>
          <thead className="sticky top-0">
            <tr>
              {head.map((name, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns have no other name
                <Th key={i}>{name}</Th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rest.slice(0, mostRows).map((row, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: nor have rows
              <Tr key={i}>
                {head.map((_, j) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: nor cells
                  <Td key={j} className="max-w-96 truncate">
                    {row[j]}
                  </Td>
                ))}
              </Tr>
            ))}
          </tbody>
        </Table>
      </div>
      {rest.length > mostRows && (
        <p className="mt-2 text-xs text-ink-3">{t('artifacts.rows', { n: format.number(mostRows) })}</p>
      )}
    </>
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
