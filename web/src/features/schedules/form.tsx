import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError, api, data, type Schedule, type ScheduleSpec } from '@/api/client'
import { keys } from '@/api/queries'
import { say } from '@/i18n/said'
import { useFormat } from '@/lib/format'
import { Button } from '@/ui/button'
import { Checkbox, Field, Input, Select, Textarea } from '@/ui/field'
import { Failure } from '@/ui/states'
import { toast } from '@/ui/toast'
import { schedulesQuery } from './use-schedules'
import { firstWhen, rhythms, timesOf, type Unit, units, type When, whenOf } from './when'

// Browsers still have the old spelling.
const spelt = (zone: string) => (zone === 'Europe/Kiev' ? 'Europe/Kyiv' : zone)
const zones = (Intl.supportedValuesOf?.('timeZone') ?? []).map(spelt)
const here = () => spelt(Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC')

type Overlap = NonNullable<ScheduleSpec['overlap']>
type CatchUp = NonNullable<ScheduleSpec['catch_up']>

/** Adds a schedule, or changes one. What the form does not show of a task stays as it is. */
export function ScheduleForm({ of, onDone }: { of?: Schedule; onDone: () => void }) {
  const { t } = useTranslation()
  const client = useQueryClient()
  const known = useQuery(schedulesQuery).data
  const [name, setName] = useState(of?.name ?? '')
  const [when, setWhen] = useState(() => (of ? whenOf(of) : firstWhen()))
  const [zone, setZone] = useState(of?.time_zone ?? here())
  const [prompt, setPrompt] = useState(of?.task.prompt ?? '')
  const [agent, setAgent] = useState(of?.task.agent_slug ?? 'assistant')
  const own = of === undefined || of.task.context_id === `${of.name} {{.ScheduledAt}}`
  const [context, setContext] = useState(own ? '' : of.task.context_id)
  const [overlap, setOverlap] = useState<Overlap>(of?.overlap ?? 'skip')
  const [catchUp, setCatchUp] = useState<CatchUp>(of?.catch_up ?? 'one')
  const [paused, setPaused] = useState(of?.paused ?? false)
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PUT('/api/runtime/schedules/{name}', {
          params: { path: { name: name.trim() } },
          body: {
            ...timesOf(when),
            time_zone: zone.trim(),
            overlap,
            catch_up: catchUp,
            paused,
            task: {
              ...(of ? specOf(of.task) : {}),
              prompt,
              agent_slug: agent.trim(),
              context_id: context.trim() || `${name.trim()} {{.ScheduledAt}}`,
            },
          },
        }),
      ),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: keys.schedules })
      toast(t('schedules.saved'))
      onDone()
    },
  })
  const problems = new Map(
    save.error instanceof ApiError ? save.error.details.map((d) => [d.field, say(d.message)]) : [],
  )
  const taken = of === undefined && known?.some((s) => s.name === name.trim())
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (!taken) save.mutate()
  }
  return (
    <form onSubmit={send} className="space-y-4">
      {of === undefined && (
        <Field
          label={t('schedules.name')}
          hint={t('schedules.nameHint')}
          error={taken ? t('schedules.taken') : problems.get('name')}
        >
          {(c) => <Input {...c} required maxLength={64} value={name} onChange={(e) => setName(e.target.value)} />}
        </Field>
      )}
      <WhenFields when={when} onChange={setWhen} error={problems.get('cron') ?? problems.get('every_sec')} />
      {when.rhythm !== 'every' && (
        <Field label={t('schedules.zone')} error={problems.get('time_zone')}>
          {(c) => (
            <>
              <Input {...c} required list={`${c.id}-list`} value={zone} onChange={(e) => setZone(e.target.value)} />
              <datalist id={`${c.id}-list`}>
                {zones.map((z) => (
                  <option key={z} value={z} />
                ))}
              </datalist>
            </>
          )}
        </Field>
      )}
      <Field
        label={t('newTask.prompt')}
        hint={t('schedules.promptHint', { at: '{{.ScheduledAt}}', name: '{{.Schedule}}' })}
        error={problems.get('task.prompt')}
      >
        {(c) => <Textarea {...c} required rows={5} value={prompt} onChange={(e) => setPrompt(e.target.value)} />}
      </Field>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label={t('newTask.agent')} error={problems.get('task.agent_slug')}>
          {(c) => <Input {...c} required value={agent} onChange={(e) => setAgent(e.target.value)} />}
        </Field>
        <Field label={t('newTask.context')} hint={t('schedules.contextHint')} error={problems.get('task.context_id')}>
          {(c) => (
            <Input
              {...c}
              value={context}
              placeholder={t('schedules.contextNew')}
              onChange={(e) => setContext(e.target.value)}
            />
          )}
        </Field>
        <Field label={t('schedules.overlap')}>
          {(c) => (
            <Select {...c} className="w-full" value={overlap} onChange={(e) => setOverlap(e.target.value as Overlap)}>
              <option value="skip">{t('schedules.overlaps.skip')}</option>
              <option value="allow">{t('schedules.overlaps.allow')}</option>
              <option value="cancel">{t('schedules.overlaps.cancel')}</option>
            </Select>
          )}
        </Field>
        <Field label={t('schedules.catchUp')} hint={catchUp === 'one' ? t('schedules.catchUpHint') : undefined}>
          {(c) => (
            <Select {...c} className="w-full" value={catchUp} onChange={(e) => setCatchUp(e.target.value as CatchUp)}>
              <option value="one">{t('schedules.catchUps.one')}</option>
              <option value="none">{t('schedules.catchUps.none')}</option>
            </Select>
          )}
        </Field>
      </div>
      <Checkbox label={t('schedules.pausedBox')} checked={paused} onChange={(e) => setPaused(e.target.checked)} />
      {save.error && <Failure error={save.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>{t('ui.cancel')}</Button>
        <Button type="submit" look="primary" busy={save.isPending}>
          {of ? t('schedules.save') : t('schedules.addDo')}
        </Button>
      </div>
    </form>
  )
}

/** The task of a schedule as it is sent: without what is empty, which the server refuses or fills in. */
const specOf = (task: Schedule['task']) => {
  const { run_at: _, delay_ms: __, idempotency_key: ___, ...rest } = task
  return rest
}

/** When: a rhythm, and what it needs. */
function WhenFields({
  when,
  onChange,
  error,
}: {
  when: When
  onChange: (when: When) => void
  error: string | undefined
}) {
  const { t } = useTranslation()
  const format = useFormat()
  const { rhythm } = when
  const timed = rhythm === 'daily' || rhythm === 'weekdays' || rhythm === 'weekly' || rhythm === 'monthly'
  return (
    <div className="grid items-start gap-4 sm:grid-cols-2">
      <Field label={t('schedules.when')} error={rhythm === 'cron' ? undefined : error}>
        {(c) => (
          <Select
            {...c}
            className="w-full"
            value={rhythm}
            onChange={(e) => {
              const to = rhythms.find((r) => r === e.target.value) ?? 'daily'
              // What was chosen so far is where the expression begins.
              onChange({ ...when, rhythm: to, ...(to === 'cron' && { cron: timesOf(when).cron || when.cron }) })
            }}
          >
            {rhythms.map((r) => (
              <option key={r} value={r}>
                {t(`schedules.rhythm.${r}`)}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <div className="flex gap-3 *:flex-1">
        {rhythm === 'weekly' && (
          <Field label={t('schedules.day')}>
            {(c) => (
              <Select
                {...c}
                className="w-full"
                value={when.day}
                onChange={(e) => onChange({ ...when, day: Number(e.target.value) })}
              >
                {[1, 2, 3, 4, 5, 6, 0].map((d) => (
                  <option key={d} value={d}>
                    {format.weekday(d)}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        )}
        {rhythm === 'monthly' && (
          <Field label={t('schedules.date')}>
            {(c) => (
              <Input
                {...c}
                type="number"
                min={1}
                max={31}
                required
                value={when.day}
                onChange={(e) => onChange({ ...when, day: Number(e.target.value) })}
              />
            )}
          </Field>
        )}
        {timed && (
          <Field label={t('schedules.time')}>
            {(c) => (
              <Input
                {...c}
                type="time"
                required
                value={when.time}
                onChange={(e) => onChange({ ...when, time: e.target.value })}
              />
            )}
          </Field>
        )}
        {rhythm === 'hourly' && (
          <Field label={t('schedules.minute')}>
            {(c) => (
              <Input
                {...c}
                type="number"
                min={0}
                max={59}
                required
                value={Number(when.time.slice(3))}
                onChange={(e) => onChange({ ...when, time: `00:${e.target.value.padStart(2, '0')}` })}
              />
            )}
          </Field>
        )}
        {rhythm === 'every' && (
          <>
            <Field label={t('schedules.interval')}>
              {(c) => (
                <Input
                  {...c}
                  type="number"
                  min={1}
                  step="any"
                  required
                  value={when.every}
                  onChange={(e) => onChange({ ...when, every: Number(e.target.value) })}
                />
              )}
            </Field>
            <Field label={t('schedules.unit')}>
              {(c) => (
                <Select
                  {...c}
                  className="w-full"
                  value={when.unit}
                  onChange={(e) => onChange({ ...when, unit: e.target.value as Unit })}
                >
                  {(Object.keys(units) as Unit[]).map((u) => (
                    <option key={u} value={u}>
                      {t(`schedules.units.${u}`)}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
          </>
        )}
        {rhythm === 'cron' && (
          <Field label={t('schedules.cron')} hint={t('schedules.cronHint')} error={error}>
            {(c) => (
              <Input
                {...c}
                required
                className="font-mono"
                value={when.cron}
                onChange={(e) => onChange({ ...when, cron: e.target.value })}
              />
            )}
          </Field>
        )}
      </div>
    </div>
  )
}
