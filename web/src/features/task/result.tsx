import { FileOutput } from 'lucide-react'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { Result, Task } from '@/api/client'
import { say } from '@/i18n/said'
import { Panel } from '@/ui/card'
import { CodeBlock } from '@/ui/code'
import { Download } from '@/ui/download'
import { Ago, CopyButton } from '@/ui/facts'
import { JsonTree } from '@/ui/json-tree'
import { Prose } from '@/ui/prose'
import { Empty, Loaded } from '@/ui/states'

type Query = Parameters<typeof Loaded<Result[] | undefined>>[0]['query']

/** What the task came to, and what earlier attempts did. */
export function ResultView({ query, task, over }: { query: Query; task: Task; over: boolean }) {
  const { t } = useTranslation()
  const none = (
    <Empty icon={FileOutput} title={over ? t('task.result.none') : t('task.result.notYet')}>
      {over ? t('task.result.noneHint') : t('task.result.notYetHint')}
    </Empty>
  )
  if (!over && !query.data) return none
  return (
    <Loaded query={query} empty={{ when: (results) => !results?.length, show: none }}>
      {(results) => (
        <div className="space-y-4">
          {results?.map((result, i) => (
            <One key={result.id} result={result} task={task} latest={i === 0} />
          ))}
        </div>
      )}
    </Loaded>
  )
}

function One({ result, task, latest }: { result: Result; task: Task; latest: boolean }) {
  const { t } = useTranslation()
  const output = result.output ?? ''
  const json = useMemo(
    () => (task.desired_format === 'json' && output.length < 2_000_000 ? parsed(output) : undefined),
    [output, task.desired_format],
  )
  return (
    <Panel
      title={
        <>
          {latest ? t('task.tab.result') : t('task.result.earlier')}{' '}
          <Ago at={result.completed_at} className="ml-2 font-normal text-ink-3" />
        </>
      }
      actions={
        output && (
          <>
            <CopyButton text={output} label={t('task.result.copy')} />
            <Download
              from={`/api/runtime/artifacts/${result.artifact_id}/content`}
              name={`result-${result.id.slice(-8)}.${task.desired_format === 'json' ? 'json' : 'md'}`}
              label={t('task.result.download')}
            />
          </>
        )
      }
    >
      {result.error_message && <CodeBlock text={say(result.error_message)} tone="bad" label={t('task.failed')} />}
      {json !== undefined ? <JsonTree value={json} /> : output && <Prose text={output} />}
      {!output && !result.error_message && <p className="text-ink-3">{t('task.noOutput')}</p>}
    </Panel>
  )
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
