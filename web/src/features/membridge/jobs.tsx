import { useQuery } from '@tanstack/react-query'
import { ArrowDownToLine, ArrowUpFromLine } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { say } from '@/i18n/said'
import { Badge, type Tone } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Panel } from '@/ui/card'
import { CodeBlock } from '@/ui/code'
import { Dialog } from '@/ui/dialog'
import { Ago } from '@/ui/facts'
import { Failure, Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { isOver, type Job, job as jobQuery, jobs, type Project } from './api'
import { Sync } from './sync'

const tones: Record<Job['status'], Tone> = { queued: 'idle', delivered: 'info', completed: 'good', failed: 'bad' }

/** What was pushed and pulled, how it ended and what was printed. */
export function Jobs({ project }: { project: Project }) {
  const { t } = useTranslation()
  const query = useQuery(jobs(project.canonical_id))
  const [shown, setShown] = useState('')
  const [asking, setAsking] = useState<Job['kind']>()
  return (
    <Panel
      title={t('membridge.jobs')}
      flush
      actions={
        <>
          <Button size="sm" onClick={() => setAsking('push')}>
            <ArrowUpFromLine className="size-3.5" aria-hidden />
            {t('membridge.sync.push')}
          </Button>
          <Button size="sm" onClick={() => setAsking('pull')}>
            <ArrowDownToLine className="size-3.5" aria-hidden />
            {t('membridge.sync.pull')}
          </Button>
        </>
      }
    >
      <Loaded
        query={query}
        empty={{
          when: (list) => list.length === 0,
          show: <p className="px-4 py-6 text-center text-ink-3">{t('membridge.noJobs')}</p>,
        }}
      >
        {(list) => (
          <Table label={t('membridge.jobs')}>
            <thead>
              <tr>
                <Th>{t('membridge.kind')}</Th>
                <Th>{t('membridge.state')}</Th>
                <Th>{t('membridge.agent')}</Th>
                <Th className="max-sm:hidden">{t('membridge.detail')}</Th>
                <Th className="max-sm:hidden">{t('membridge.when')}</Th>
                <Th>
                  <span className="sr-only">{t('membridge.show')}</span>
                </Th>
              </tr>
            </thead>
            <tbody>
              {list.map((job) => (
                <Tr key={job.id}>
                  <Td className="font-medium">{t(`membridge.${job.kind}`)}</Td>
                  <Td>
                    <Badge tone={tones[job.status]}>{t(`membridge.job.${job.status}`)}</Badge>
                  </Td>
                  <Td className="max-w-40 truncate">{job.agent}</Td>
                  <Td className="w-full max-w-40 truncate text-ink-2 max-sm:hidden">{say(job.detail)}</Td>
                  <Td className="text-ink-2 max-sm:hidden">
                    <Ago at={job.created_at * 1000} />
                  </Td>
                  <Td className="text-right">
                    <Button size="sm" onClick={() => setShown(job.id)}>
                      {t('membridge.show')}
                    </Button>
                  </Td>
                </Tr>
              ))}
            </tbody>
          </Table>
        )}
      </Loaded>
      {asking && (
        <Sync
          kind={asking}
          project={project}
          onOpenChange={() => setAsking(undefined)}
          onAsked={(id) => {
            setShown(id)
            void query.refetch()
          }}
          onFailed={() => void query.refetch()}
        />
      )}
      {shown && <OneJob id={shown} onClose={() => setShown('')} />}
    </Panel>
  )
}

/** One job as it goes on: its state, what it says and what was printed. */
function OneJob({ id, onClose }: { id: string; onClose: () => void }) {
  const { t } = useTranslation()
  const query = useQuery(jobQuery(id))
  const job = query.data
  return (
    <Dialog
      open
      wide
      onOpenChange={onClose}
      title={
        job ? t('membridge.output', { kind: t(`membridge.${job.kind}`), agent: job.agent }) : t('membridge.oneJob')
      }
      lead={job && say(job.detail)}
    >
      {query.error && !job && <Failure error={query.error} retry={() => void query.refetch()} />}
      {job && (
        <div className="space-y-3" role="status">
          <p className="flex items-center gap-2 text-ink-2">
            <Badge tone={tones[job.status]} dot live={!isOver(job)}>
              {t(`membridge.job.${job.status}`)}
            </Badge>
            <Ago at={job.created_at * 1000} />
            {typeof job.returncode === 'number' && <span>{t('membridge.code', { code: job.returncode })}</span>}
          </p>
          {job.stdout && <CodeBlock text={job.stdout} />}
          {job.stderr && <CodeBlock text={job.stderr} tone="bad" />}
          {!job.stdout && !job.stderr && (
            <p className="text-ink-3">{isOver(job) ? t('membridge.noOutput') : t('membridge.waits')}</p>
          )}
        </div>
      )}
    </Dialog>
  )
}
