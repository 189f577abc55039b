import { Link } from '@tanstack/react-router'
import { Boxes } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type Artifact, api, page } from '@/api/client'
import { keys } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { Download } from '@/ui/download'
import { Export } from '@/ui/export'
import { Ago, Id } from '@/ui/facts'
import { Checkbox, Select } from '@/ui/field'
import { OfTask } from '@/ui/of-task'
import { Page } from '@/ui/page'
import { Paged } from '@/ui/paged'
import { Td, Th, Tr } from '@/ui/table'
import { ArtifactDialog, fileNameOf, pathOf } from './artifact-dialog'
import { types, useTypeName } from './type-name'

export default function Artifacts() {
  const { t } = useTranslation()
  const format = useFormat()
  const nameOfType = useTypeName()
  const [task, setTask] = useState('')
  const [type, setType] = useState('')
  const [empties, setEmpties] = useState(false)
  const [shown, setShown] = useState('')
  const filters = { ...(task ? { task_id: task } : {}), ...(type ? { type } : {}) }
  const read = (cursor: string | undefined, limit = 50) =>
    page<Artifact>(
      api.GET('/api/runtime/artifacts', {
        params: { query: { ...filters, limit, ...(cursor ? { cursor } : {}) } },
      }),
    )
  return (
    <Page title={t('artifacts.title')} lead={t('artifacts.lead')} actions={<Export name="artifacts" read={read} />}>
      <div className="mb-4 flex flex-wrap gap-2">
        <Select
          aria-label={t('artifacts.type')}
          value={type}
          onChange={(e) => setType(e.target.value)}
          className="w-full sm:w-52"
        >
          <option value="">{t('artifacts.anyType')}</option>
          {types.map((name) => (
            <option key={name} value={name}>
              {nameOfType(name)}
            </option>
          ))}
        </Select>
        <OfTask onChange={setTask} />
        <Checkbox label={t('artifacts.empties')} checked={empties} onChange={(e) => setEmpties(e.target.checked)} />
      </div>
      <Paged<Artifact>
        label={t('artifacts.title')}
        queryKey={[...keys.artifacts, 'list', filters, empties]}
        read={async (cursor) => {
          const found = await read(cursor)
          return empties ? found : { ...found, items: found.items.filter((a) => !isEmptyResult(a)) }
        }}
        icon={Boxes}
        none={t('artifacts.none')}
        noneHint={Object.keys(filters).length > 0 ? t('ui.noneMatch') : t('artifacts.noneHint')}
        head={
          <>
            <Th>{t('artifacts.name')}</Th>
            <Th>{t('artifacts.task')}</Th>
            <Th className="text-right">{t('artifacts.size')}</Th>
            <Th className="max-sm:hidden">{t('artifacts.where')}</Th>
            <Th>{t('artifacts.created')}</Th>
            <Th>
              <span className="sr-only">{t('task.result.download')}</span>
            </Th>
          </>
        }
        row={(a) => (
          <Tr key={a.id}>
            <Td className="max-w-80 max-sm:max-w-36">
              <button
                type="button"
                onClick={() => setShown(a.id)}
                className="block max-w-full truncate text-left text-accent-strong hover:underline"
                title={pathOf(a) || a.id}
              >
                {pathOf(a) ? <span className="font-mono text-xs">{pathOf(a)}</span> : nameOfType(a.type)}
              </button>
            </Td>
            <Td>
              <Link to="/tasks/$taskId" params={{ taskId: a.task_id }} className="text-accent-strong hover:underline">
                <Id id={a.task_id} />
              </Link>
            </Td>
            <Td className="text-right text-ink-2">{format.bytes(a.size)}</Td>
            <Td className="max-w-64 truncate text-ink-2 max-sm:hidden">
              <Where url={a.url} />
            </Td>
            <Td className="text-ink-2">
              <Ago at={a.created_at} />
            </Td>
            <Td className="text-right">
              <Download
                from={`/api/runtime/artifacts/${a.id}/content`}
                name={fileNameOf(a)}
                label={t('task.result.download')}
              />
            </Td>
          </Tr>
        )}
      />
      {shown && <ArtifactDialog id={shown} onClose={() => setShown('')} />}
    </Page>
  )
}

/** What an attempt leaves that failed before it answered. */
const isEmptyResult = (a: Artifact) => a.type === 'LLM_RESULT' && a.size === 0

/** Where the content is, in a word; its address for who wants it. */
function Where({ url }: { url: string | null }) {
  const { t } = useTranslation()
  const [, scheme, bucket] = /^(\w+):(?:\/\/([^/]+))?/.exec(url ?? '') ?? []
  if (!url || scheme === 'database') return t('artifacts.inRow')
  return <span title={url}>{bucket ? t('artifacts.bucket', { name: bucket }) : t('artifacts.folder')}</span>
}
