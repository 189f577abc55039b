import { useQuery } from '@tanstack/react-query'
import { Boxes, ScrollText } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type Artifact, api, data } from '@/api/client'
import { keys } from '@/api/queries'
import { DownloadAll } from '@/features/artifacts/archive'
import { ArtifactDialog } from '@/features/artifacts/artifact-dialog'
import { fileNameOf, isEmptyResult } from '@/features/artifacts/kind'
import { Name } from '@/features/artifacts/name'
import { useActionName } from '@/features/audit/action-name'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { Panel } from '@/ui/card'
import { Download } from '@/ui/download'
import { Ago } from '@/ui/facts'
import { Empty, Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'

/** The task's artifacts and its entries in the audit log. */
export function Records({ taskId }: { taskId: string }) {
  const { t } = useTranslation()
  const nameOfAction = useActionName()
  const format = useFormat()
  const [shown, setShown] = useState('')
  const artifacts = useQuery({
    queryKey: [...keys.artifacts, 'task', taskId],
    queryFn: () => data(api.GET('/api/runtime/artifacts', { params: { query: { task_id: taskId } } })),
  })
  const audit = useQuery({
    queryKey: [...keys.audit, 'task', taskId],
    queryFn: () => data(api.GET('/api/runtime/audit', { params: { query: { entity_id: taskId } } })),
  })
  return (
    <div className="space-y-4">
      <Panel
        title={t('artifacts.title')}
        flush
        actions={
          (artifacts.data?.filter((a) => !isEmptyResult(a)).length ?? 0) > 1 && (
            <DownloadAll small filters={{ task_id: taskId }} />
          )
        }
      >
        <Loaded
          query={artifacts}
          empty={{
            when: (list) => !list?.some((a) => !isEmptyResult(a)),
            show: <Empty icon={Boxes} title={t('task.noArtifacts')} />,
          }}
        >
          {(list) => (
            <Table label={t('artifacts.title')}>
              <tbody>
                {filesFirst(list ?? []).map((a) => (
                  <Tr key={a.id}>
                    <Td className="w-full max-w-0">
                      <Name artifact={a} onOpen={() => setShown(a.id)} />
                    </Td>
                    <Td className="max-sm:hidden">
                      <span className="flex gap-1">
                        {a.tags?.map((tag) => (
                          <Badge key={tag}>{tag}</Badge>
                        ))}
                      </span>
                    </Td>
                    <Td className="text-ink-2">{format.bytes(a.size)}</Td>
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
                ))}
              </tbody>
            </Table>
          )}
        </Loaded>
        {shown && <ArtifactDialog id={shown} onClose={() => setShown('')} />}
      </Panel>
      <Panel title={t('audit.title')} flush>
        <Loaded
          query={audit}
          empty={{ when: (list) => !list?.length, show: <Empty icon={ScrollText} title={t('task.noAudit')} /> }}
        >
          {(list) => (
            <Table label={t('audit.title')}>
              <thead>
                <tr>
                  <Th>{t('task.audit.when')}</Th>
                  <Th>{t('task.audit.action')}</Th>
                  <Th className="max-sm:hidden">{t('task.audit.actor')}</Th>
                  <Th className="max-sm:hidden">{t('task.audit.detail')}</Th>
                </tr>
              </thead>
              <tbody>
                {list?.map((e) => (
                  <Tr key={e.id}>
                    <Td className="text-ink-2">
                      <Ago at={e.timestamp} />
                    </Td>
                    <Td wrap>
                      {nameOfAction(e.action)}
                      <span className="block text-xs text-ink-2 wrap-anywhere sm:hidden">{say(e.detail)}</span>
                    </Td>
                    <Td className="max-sm:hidden">{e.actor}</Td>
                    <Td wrap className="text-ink-2 wrap-anywhere max-sm:hidden">
                      {say(e.detail)}
                    </Td>
                  </Tr>
                ))}
              </tbody>
            </Table>
          )}
        </Loaded>
      </Panel>
    </div>
  )
}

/** What a task left, its files by name before the rest; not the results of attempts that failed. */
const filesFirst = (list: Artifact[]) =>
  list
    .filter((a) => !isEmptyResult(a))
    .sort(
      (a, b) =>
        Number(b.type === 'FILE') - Number(a.type === 'FILE') || (a.path ?? '').localeCompare(b.path ?? '') || 0,
    )
