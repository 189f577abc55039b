import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { api, data } from '@/api/client'
import { keys } from '@/api/queries'
import { useFormat } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { Dialog } from '@/ui/dialog'
import { Download } from '@/ui/download'
import { Ago } from '@/ui/facts'
import { Loaded } from '@/ui/states'
import { fileNameOf, pathOf } from './kind'
import { Preview } from './preview'
import { useTypeName } from './type-name'

/** The whole of an artifact, which lists only show the beginning of. */
export function ArtifactDialog({
  id,
  prompt,
  onClose,
}: {
  id: string
  /** Of its task, where that is not the page around it. */
  prompt?: string
  onClose: () => void
}) {
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
      wide="most"
      onOpenChange={onClose}
      title={a ? pathOf(a) || nameOfType(a.type) : t('artifacts.title')}
      lead={
        a && (
          <span className="block text-[13px]">
            <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
              {pathOf(a) && <Badge>{nameOfType(a.type)}</Badge>}
              <span>{format.bytes(a.size)}</span>
              <span className="wrap-anywhere">{a.media_type.split(';')[0]}</span>
              <Ago at={a.created_at} />
              <Where url={a.url} />
              <Download
                from={`/api/runtime/artifacts/${a.id}/content`}
                name={fileNameOf(a)}
                label={t('task.result.download')}
              />
            </span>
            {prompt !== undefined && (
              <Link
                to="/tasks/$taskId"
                params={{ taskId: a.task_id }}
                onClick={onClose}
                className="line-clamp-1 wrap-anywhere text-accent-strong hover:underline"
              >
                {prompt || a.task_id}
              </Link>
            )}
          </span>
        )
      }
    >
      <Loaded query={row}>{(found) => <Preview artifact={found} />}</Loaded>
    </Dialog>
  )
}

/** Where the content is, in a word; its address for who wants it. */
function Where({ url }: { url: string | null }) {
  const { t } = useTranslation()
  const [, scheme, bucket] = /^(\w+):(?:\/\/([^/]+))?/.exec(url ?? '') ?? []
  if (!url || scheme === 'database') return t('artifacts.inRow')
  return <span title={url}>{bucket ? t('artifacts.bucket', { name: bucket }) : t('artifacts.folder')}</span>
}
