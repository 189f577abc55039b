import { Link } from '@tanstack/react-router'
import { Boxes } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type Artifact, api, page } from '@/api/client'
import { keys } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Download } from '@/ui/download'
import { Export } from '@/ui/export'
import { Ago, Id } from '@/ui/facts'
import { Checkbox, Select } from '@/ui/field'
import { OfTask } from '@/ui/of-task'
import { Page } from '@/ui/page'
import { Paged } from '@/ui/paged'
import { Td, Th, Tr } from '@/ui/table'
import { DownloadAll } from './archive'
import { ArtifactDialog } from './artifact-dialog'
import { fileNameOf, isEmptyResult } from './kind'
import { Name } from './name'
import { types, useTypeName } from './type-name'

const link = 'block truncate text-ink-2 hover:text-accent-strong hover:underline'

export default function Artifacts() {
  const { t } = useTranslation()
  const format = useFormat()
  const nameOfType = useTypeName()
  const [task, setTask] = useState('')
  const [type, setType] = useState('FILE')
  const [empties, setEmpties] = useState(false)
  const [shown, setShown] = useState<Artifact>()
  const filters = { ...(task ? { task_id: task } : {}), ...(type ? { type } : {}) }
  const read = (cursor: string | undefined, limit: number, preview = 0) =>
    page<Artifact>(
      api.GET('/api/runtime/artifacts', {
        params: { query: { ...filters, limit, ...(preview && { preview }), ...(cursor ? { cursor } : {}) } },
      }),
    )
  return (
    <Page
      title={t('artifacts.title')}
      lead={t('artifacts.lead')}
      actions={
        <>
          <DownloadAll filters={filters} />
          <Export name="artifacts" read={read} />
        </>
      }
    >
      <div className="mb-4 flex flex-wrap items-center gap-2">
        <Select
          aria-label={t('artifacts.type')}
          value={type}
          onChange={(e) => setType(e.target.value)}
          className="w-full sm:w-52"
        >
          {types.map((name) => (
            <option key={name} value={name}>
              {t(`artifacts.kinds.${name}`)}
            </option>
          ))}
          <option value="">{t('artifacts.anyType')}</option>
        </Select>
        <OfTask onChange={setTask} />
        {(type === '' || type === 'LLM_RESULT') && (
          <Checkbox label={t('artifacts.empties')} checked={empties} onChange={(e) => setEmpties(e.target.checked)} />
        )}
      </div>
      <Paged<Artifact>
        label={t('artifacts.title')}
        queryKey={[...keys.artifacts, 'list', filters, empties]}
        read={async (cursor) => {
          const found = await read(cursor, 50, 1)
          return empties ? found : { ...found, items: found.items.filter((a) => !isEmptyResult(a)) }
        }}
        icon={Boxes}
        none={type === 'FILE' ? t('artifacts.noFiles') : t('artifacts.none')}
        noneHint={task ? t('ui.noneMatch') : type === 'FILE' ? t('artifacts.noFilesHint') : t('artifacts.noneHint')}
        noneAction={
          type === 'FILE' && <Button onClick={() => setType('LLM_RESULT')}>{t('artifacts.showResults')}</Button>
        }
        head={
          <>
            <Th>{t('artifacts.name')}</Th>
            <Th className="max-md:hidden">{t('artifacts.task')}</Th>
            <Th className="max-lg:hidden">{t('artifacts.context')}</Th>
            <Th className="text-right">{t('artifacts.size')}</Th>
            <Th className="max-md:hidden">{t('artifacts.created')}</Th>
            <Th>
              <span className="sr-only">{t('task.result.download')}</span>
            </Th>
          </>
        }
        row={(a) => (
          <Tr key={a.id}>
            <Td className="w-full max-w-0 md:w-2/5">
              <Name artifact={a} onOpen={() => setShown(a)} />
              <Link
                to="/tasks/$taskId"
                params={{ taskId: a.task_id }}
                className="block truncate pl-6 text-2xs text-ink-3 hover:underline md:hidden"
              >
                {a.prompt || nameOfType(a.type)} · <Ago at={a.created_at} />
              </Link>
            </Td>
            <Td className="w-2/5 max-w-0 max-md:hidden">
              <Link to="/tasks/$taskId" params={{ taskId: a.task_id }} className={link}>
                {a.prompt || <Id id={a.task_id} />}
              </Link>
            </Td>
            <Td className="max-w-44 max-lg:hidden">
              {a.context_id && (
                <Link to="/contexts/$contextId" params={{ contextId: a.context_id }} className={link}>
                  {a.context_id}
                </Link>
              )}
            </Td>
            <Td className="text-right text-ink-2">{format.bytes(a.size)}</Td>
            <Td className="text-ink-2 max-md:hidden">
              <Ago at={a.created_at} />
            </Td>
            <Td className="w-10 text-right">
              <Download
                from={`/api/runtime/artifacts/${a.id}/content`}
                name={fileNameOf(a)}
                label={t('task.result.download')}
              />
            </Td>
          </Tr>
        )}
      />
      {shown && <ArtifactDialog id={shown.id} prompt={shown.prompt ?? ''} onClose={() => setShown(undefined)} />}
    </Page>
  )
}
