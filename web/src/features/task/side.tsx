import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { Result, Task } from '@/api/client'
import { useFormat } from '@/lib/format'
import { Badge } from '@/ui/badge'
import { Fact, Facts, Panel } from '@/ui/card'
import { Ago, Elapsed, Id } from '@/ui/facts'
import type { Conversation } from './conversation'
import { isFinal } from './events'

const link = 'text-accent-strong underline-offset-2 hover:underline'

/** The task's numbers: what it used, where it runs, what was asked for. */
export function Side({
  task,
  conversation,
  results,
}: {
  task: Task
  conversation: Conversation
  /** Of every attempt, the newest first. */
  results: Result[] | undefined
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const over = isFinal(task.status)
  // While an attempt runs, its own numbers count up; the earlier ones are below.
  const metrics = over ? results?.[0]?.metrics : undefined
  const { usage } = conversation
  const tokens = metrics?.tokens_used ?? usage?.tokens
  const model = metrics?.model || conversation.model
  const started = conversation.items.findLast((i) => i.kind === 'step' && i.type === 'started')
  const cost = metrics?.cost_usd ?? usage?.cost
  const attempts = [...(results ?? [])].reverse()
  // The task also counts attempts without a result, but what runs only as last reported.
  const whole = Math.max(
    attempts.reduce((sum, r) => sum + (r.metrics.cost_usd ?? 0), over ? 0 : (usage?.cost ?? 0)),
    task.usage?.cost_usd ?? 0,
  )
  return (
    <aside aria-label={t('task.facts')} className="space-y-4 self-start xl:sticky xl:top-18">
      <Panel title={t('task.usage')}>
        <div className="grid grid-cols-[auto_auto_auto] justify-between gap-4">
          <Metric name={t('task.tokens')} value={tokens === undefined ? '–' : format.compact(tokens)} />
          <Metric name={t('task.cost')} value={cost === undefined || cost === null ? '–' : format.money(cost)} />
          <Metric
            name={t('task.time')}
            value={
              metrics ? format.duration(metrics.duration_ms) : started && !over ? <Elapsed from={started.at} /> : '–'
            }
          />
        </div>
        <Facts className="mt-4 empty:hidden">
          {(metrics?.input_tokens ?? usage?.input) !== undefined && (
            <Fact name={t('task.inOut')}>
              {format.number(metrics?.input_tokens ?? usage?.input ?? 0)} /{' '}
              {format.number(metrics?.output_tokens ?? usage?.output ?? 0)}
            </Fact>
          )}
          {usage && usage.cached > 0 && <Fact name={t('task.cached')}>{format.number(usage.cached)}</Fact>}
          {metrics?.num_turns !== undefined && <Fact name={t('task.turns')}>{metrics.num_turns}</Fact>}
          {model && <Fact name={t('task.model')}>{model}</Fact>}
          {(attempts.length > (over ? 1 : 0) || task.attempts > 1) && whole > 0 && (
            <Fact name={t('task.allAttempts')}>{format.money(whole)}</Fact>
          )}
          {metrics?.cost_kind === 'subscription_estimate' && (
            <Fact name={t('task.costKind')}>{t('task.subscription')}</Fact>
          )}
        </Facts>
      </Panel>
      <Panel title={t('task.facts')}>
        <Facts>
          <Fact name={t('task.context')}>
            <Link to="/contexts/$contextId" params={{ contextId: task.context_id }} className={link}>
              {task.context_id}
            </Link>
          </Fact>
          {task.worker_id && (
            <Fact name={t('task.worker')}>
              <Link to="/tasks" search={{ worker_id: task.worker_id }} className={link}>
                {task.worker_id}
              </Link>
            </Fact>
          )}
          <Fact name={t('task.created')}>
            <Ago at={task.created_at} />
          </Fact>
          {task.run_at > task.created_at + 1000 && (
            <Fact name={t('task.runAt')}>
              <Ago at={task.run_at} />
            </Fact>
          )}
          {task.attempts > 1 && (
            <Fact name={t('task.attempts')}>{t('task.attemptOf', { n: task.attempts, max: task.max_attempts })}</Fact>
          )}
          <Fact name={t('task.limit')}>{format.duration(task.policy.timeout_sec * 1000)}</Fact>
          {task.policy.budget > 0 && (
            <Fact name={t('task.budget')}>
              {t('task.tokensOf', { count: task.policy.budget, n: format.number(task.policy.budget) })}
            </Fact>
          )}
          {task.policy.ordered && <Fact name={t('task.order')}>{t('task.ordered')}</Fact>}
          {task.priority !== 0 && <Fact name={t('task.priority')}>{task.priority}</Fact>}
          <Fact name={t('task.format')}>{task.desired_format === 'json' ? 'JSON' : t('task.text')}</Fact>
          {(task.labels ?? []).length > 0 && (
            <Fact name={t('task.labels')}>
              <span className="flex flex-wrap gap-1">
                {task.labels?.map((l) => (
                  <Badge key={l}>{l}</Badge>
                ))}
              </span>
            </Fact>
          )}
          {(task.context_hints ?? []).length > 0 && (
            <Fact name={t('task.hints')}>
              <span className="font-mono text-xs">{task.context_hints?.join(', ')}</span>
            </Fact>
          )}
          {task.lease_id && (
            <Fact name={t('task.lease')}>
              <Id id={task.lease_id} />
            </Fact>
          )}
        </Facts>
      </Panel>
    </aside>
  )
}

const Metric = ({ name, value }: { name: string; value: ReactNode }) => (
  <div className="min-w-0">
    <p className="text-xs text-ink-3">{name}</p>
    <p className="truncate text-[17px] font-semibold tracking-tight">{value}</p>
  </div>
)
