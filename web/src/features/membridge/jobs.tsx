import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Badge, type Tone } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Panel } from '@/ui/card'
import { CodeBlock } from '@/ui/code'
import { Dialog } from '@/ui/dialog'
import { Ago } from '@/ui/facts'
import { Loaded } from '@/ui/states'
import { Table, Td, Th, Tr } from '@/ui/table'
import { type Job, jobs, type Project } from './api'

const tones: Record<Job['status'], Tone> = { queued: 'idle', delivered: 'info', completed: 'good', failed: 'bad' }

/** What was pushed and pulled, how it ended and what was printed. */
export function Jobs({ project }: { project: Project }) {
  const { t } = useTranslation()
  const query = useQuery(jobs(project.canonical_id))
  const [shown, setShown] = useState<Job>()
  return (
    <Panel title={t('membridge.jobs')} flush>
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
                  <Td className="w-full max-w-40 truncate text-ink-2 max-sm:hidden">{job.detail}</Td>
                  <Td className="text-ink-2 max-sm:hidden">
                    <Ago at={job.created_at * 1000} />
                  </Td>
                  <Td className="text-right">
                    <Button size="sm" onClick={() => setShown(job)}>
                      {t('membridge.show')}
                    </Button>
                  </Td>
                </Tr>
              ))}
            </tbody>
          </Table>
        )}
      </Loaded>
      {shown && (
        <Dialog
          open
          wide
          onOpenChange={() => setShown(undefined)}
          title={t('membridge.output', { kind: t(`membridge.${shown.kind}`), agent: shown.agent })}
          lead={shown.detail}
        >
          <Output job={shown} />
        </Dialog>
      )}
    </Panel>
  )
}

function Output({ job }: { job: Job }) {
  const { t } = useTranslation()
  return (
    <div className="space-y-3">
      {typeof job.returncode === 'number' && (
        <p className="text-ink-2">{t('membridge.code', { code: job.returncode })}</p>
      )}
      {job.stdout && <CodeBlock text={job.stdout} />}
      {job.stderr && <CodeBlock text={job.stderr} tone="bad" />}
      {!job.stdout && !job.stderr && <p className="text-ink-3">{t('membridge.noOutput')}</p>}
    </div>
  )
}
