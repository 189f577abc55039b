import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleQuestionMark } from 'lucide-react'
import { type FormEvent, useId, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Approval } from '@/api/client'
import { task as taskQuery } from '@/api/queries'
import { useApprovesOnly, useReadsOnly } from '@/api/session'
import { fileOf } from '@/features/task/paths'
import { aboutOf, ToolInput } from '@/features/task/tool-card'
import { say } from '@/i18n/said'
import { Badge, type Tone } from '@/ui/badge'
import { Button } from '@/ui/button'
import { Card } from '@/ui/card'
import { CodeBlock } from '@/ui/code'
import { Ago } from '@/ui/facts'
import { Field, Input, Textarea } from '@/ui/field'
import { JsonTree } from '@/ui/json-tree'
import { Failure, SkeletonRows } from '@/ui/states'
import { approvalQuery, useDecide } from './use-approvals'

const tones: Record<Approval['status'], Tone> = {
  pending: 'warn',
  allowed: 'good',
  denied: 'bad',
  expired: 'idle',
  cancelled: 'idle',
}

interface Place {
  /** It is on its task's own page. */
  ofTask?: boolean
  /** Called when the person has decided. */
  onDecided?: () => void
}

/** A request that may wait for a decision: all of what it asks, and the buttons that decide it. */
export function Request({ taskId, id, ...place }: Place & { taskId: string; id: string }) {
  const query = useQuery(approvalQuery(taskId, id))
  if (query.data) return <Shown of={query.data} {...place} />
  return (
    <Card>
      {query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : <SkeletonRows rows={3} />}
    </Card>
  )
}

/** A request: who asks for what, and what became of that. What a list has of it lacks the input. */
export function Shown({ of, ofTask, onDecided }: Place & { of: Approval }) {
  const { t } = useTranslation()
  const readsOnly = useReadsOnly()
  const approves = useApprovesOnly()
  const input = (of.input ?? {}) as Record<string, unknown>
  const { kind, Icon } = aboutOf({ name: of.tool, input, folder: '' })
  const question = of.kind === 'question'
  const Picture = question ? CircleQuestionMark : Icon
  const pending = of.status === 'pending'
  const decides = pending && of.input !== undefined && (approves || !readsOnly)
  const byPerson = of.status === 'allowed' || of.status === 'denied'
  const name = useId()
  return (
    <Card role="group" aria-labelledby={name}>
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b px-4 py-2.5">
        <Picture className="size-4 shrink-0 text-ink-3" aria-hidden />
        <h2 id={name} className="min-w-0 text-[13px] font-semibold wrap-anywhere">
          {question ? t('approvals.question') : t('approvals.mayRun', { tool: of.tool })}
        </h2>
        <Badge tone={tones[of.status]}>{t(`approvals.is.${of.status}`)}</Badge>
        <span className="ml-auto text-xs text-ink-3">
          {t('approvals.asked')} <Ago at={of.asked_at} />
          {pending && (
            <>
              {' · '}
              {t('approvals.expires')} <Ago at={of.expires_at} />
            </>
          )}
        </span>
      </header>
      <div className="space-y-3 p-4">
        <p className="text-xs text-ink-2 wrap-anywhere">
          {!ofTask && <TaskLink id={of.task_id} />}
          {!ofTask && ' · '}
          {t('approvals.worker', { worker: of.worker_id })}
        </p>
        {decides && question ? null : kind === 'bash' || ((kind === 'edit' || kind === 'write') && of.input) ? (
          <>
            {fileOf(input) && <p className="font-mono text-xs wrap-anywhere">{fileOf(input)}</p>}
            {of.input ? (
              <ToolInput name={of.tool} input={input} />
            ) : (
              <CodeBlock text={`$ ${of.readable}`} limit={5} language="bash" label={t('approvals.request')} />
            )}
          </>
        ) : (
          <CodeBlock text={of.readable} limit={of.input ? 40 : 5} label={t('approvals.request')} />
        )}
        {of.input !== undefined && !question && (
          <details className="text-xs text-ink-2">
            <summary className="cursor-pointer">{t('approvals.input')}</summary>
            <div className="mt-1">
              <JsonTree value={input} />
            </div>
          </details>
        )}
        {of.answers && Object.keys(of.answers).length > 0 && (
          <dl className="space-y-1">
            {Object.entries(of.answers).map(([asked, answer]) => (
              <div key={asked}>
                <dt className="text-xs text-ink-3">{asked}</dt>
                <dd className="wrap-anywhere">{answer}</dd>
              </div>
            ))}
          </dl>
        )}
        {of.decided_at !== null && (
          <p className="text-[13px] text-ink-2 wrap-anywhere">
            {of.decided_by && byPerson && `${t('approvals.by', { who: of.decided_by })} · `}
            <Ago at={of.decided_at} />
            {of.message && ` · ${say(of.message)}`}
          </p>
        )}
        {decides && <Decide of={of} {...(onDecided && { onDecided })} />}
      </div>
    </Card>
  )
}

/** The task that asks, by what it was told. */
function TaskLink({ id }: { id: string }) {
  const { t } = useTranslation()
  const { data } = useQuery({ ...taskQuery(id), refetchInterval: false })
  const text = data?.prompt.trim().slice(0, 120) || t('approvals.task')
  if (useApprovesOnly()) return text
  return (
    <Link to="/tasks/$taskId" params={{ taskId: id }} className="text-accent-strong hover:underline">
      {text}
    </Link>
  )
}

function Decide({ of, onDecided }: { of: Approval; onDecided?: () => void }) {
  const { t } = useTranslation()
  const decide = useDecide(of, onDecided)
  const [denying, setDenying] = useState<boolean>()
  const [message, setMessage] = useState('')
  const deny = (event: FormEvent) => {
    event.preventDefault()
    decide.mutate({ decision: 'deny', ...(message.trim() && { message: message.trim() }) })
  }
  if (denying) {
    return (
      <form onSubmit={deny} className="space-y-3">
        {of.kind === 'question' && <CodeBlock text={of.readable} label={t('approvals.request')} />}
        <Field label={t('approvals.reason')} hint={t('approvals.reasonHint')}>
          {(c) => (
            <Textarea
              {...c}
              ref={focus}
              rows={2}
              maxLength={4000}
              value={message}
              onChange={(e) => setMessage(e.target.value)}
            />
          )}
        </Field>
        <div className="flex flex-wrap gap-2">
          <Button type="submit" look="danger" busy={decide.isPending}>
            {t('approvals.deny')}
          </Button>
          <Button look="ghost" onClick={() => setDenying(false)}>
            {t('ui.cancel')}
          </Button>
        </div>
      </form>
    )
  }
  const toDeny = (
    <Button
      look="danger"
      ref={denying === false ? focus : undefined} // the person is back from the reason
      disabled={decide.isPending}
      onClick={() => setDenying(true)}
    >
      {t('approvals.deny')}
    </Button>
  )
  if (of.kind === 'question') {
    return (
      <Questions of={of} busy={decide.isPending} onAnswer={(answers) => decide.mutate({ decision: 'allow', answers })}>
        {toDeny}
      </Questions>
    )
  }
  return (
    <div className="flex flex-wrap gap-2">
      <Button look="primary" busy={decide.isPending} onClick={() => decide.mutate({ decision: 'allow' })}>
        {t('approvals.allow')}
      </Button>
      {toDeny}
    </div>
  )
}

const focus = (control: HTMLElement | null) => control?.focus()

interface Question {
  question: string
  multiSelect?: boolean
  options?: { label: string; description?: string }[]
}

/** Claude's questions with their options, each of which may also be answered in words. */
function Questions({
  of,
  busy,
  onAnswer,
  children,
}: {
  of: Approval
  busy: boolean
  onAnswer: (answers: Record<string, string>) => void
  children: React.ReactNode
}) {
  const { t } = useTranslation()
  const name = useId()
  const [chosen, setChosen] = useState<Record<string, string[]>>({})
  const [own, setOwn] = useState<Record<string, string>>({})
  const { questions = [] } = of.input as { questions?: Question[] }
  const answers = Object.fromEntries(
    questions.map(({ question }) => [
      question,
      [...(chosen[question] ?? []), own[question]?.trim() ?? ''].filter(Boolean).join(', '),
    ]),
  )
  const choose = ({ question, multiSelect }: Question, label: string, checked: boolean) => {
    const others = multiSelect ? (chosen[question] ?? []).filter((l) => l !== label) : []
    setChosen({ ...chosen, [question]: checked ? [...others, label] : others })
    if (!multiSelect) setOwn({ ...own, [question]: '' })
  }
  const write = ({ question, multiSelect }: Question, text: string) => {
    setOwn({ ...own, [question]: text })
    if (!multiSelect && text) setChosen({ ...chosen, [question]: [] })
  }
  const send = (event: FormEvent) => {
    event.preventDefault()
    onAnswer(answers)
  }
  return (
    <form onSubmit={send} className="space-y-4">
      {questions.map((q, i) => (
        <fieldset key={q.question} className="space-y-2">
          <legend className="mb-2 font-medium wrap-anywhere">{q.question}</legend>
          {q.options?.map(({ label, description }) => (
            <label key={label} className="flex items-start gap-2">
              <input
                type={q.multiSelect ? 'checkbox' : 'radio'}
                name={`${name}-${i}`}
                checked={chosen[q.question]?.includes(label) ?? false}
                onChange={(e) => choose(q, label, e.target.checked)}
                className="mt-0.5 size-4 shrink-0 accent-accent"
              />
              <span className="min-w-0 wrap-anywhere">
                {label}
                {description && <span className="block text-xs text-ink-2">{description}</span>}
              </span>
            </label>
          ))}
          <Input
            aria-label={t('approvals.ownAnswerTo', { question: q.question })}
            placeholder={t('approvals.ownAnswer')}
            maxLength={1000}
            value={own[q.question] ?? ''}
            onChange={(e) => write(q, e.target.value)}
          />
        </fieldset>
      ))}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" look="primary" busy={busy} disabled={Object.values(answers).includes('')}>
          {t('approvals.answer')}
        </Button>
        {children}
      </div>
    </form>
  )
}
