import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Command } from 'cmdk'
import { Dialog } from 'radix-ui'
import { useDeferredValue, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { api, type Context, data, isTaskStatus, type Task } from '@/api/client'
import { keys, useMembridge, workers } from '@/api/queries'
import { schedulesQuery } from '@/features/schedules/use-schedules'
import { setLanguage } from '@/i18n'
import { setTheme } from '@/lib/preferences'
import { TaskBadge, WorkerBadge } from '@/ui/badge'
import { useFocusBack } from '@/ui/dialog'
import { Id } from '@/ui/facts'
import { Snippet } from '@/ui/snippet'

const pages = [
  { to: '/', name: 'overview' },
  { to: '/tasks', name: 'tasks' },
  { to: '/approvals', name: 'approvals' },
  { to: '/contexts', name: 'contexts' },
  { to: '/schedules', name: 'schedules' },
  { to: '/workers', name: 'workers' },
  { to: '/membridge', name: 'membridge' },
  { to: '/artifacts', name: 'artifacts' },
  { to: '/audit', name: 'audit' },
  { to: '/leases', name: 'leases' },
  { to: '/settings', name: 'settings' },
] as const

const item =
  'flex cursor-default items-center gap-3 rounded-lg px-3 py-2 text-sm select-none data-[selected=true]:bg-accent-soft'
const group =
  '[&_[cmdk-group-heading]]:px-3 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-2xs [&_[cmdk-group-heading]]:font-medium [&_[cmdk-group-heading]]:text-ink-3'
/** The parts of the settings, as the page names them. */
const parts = ['server', 'keys', 'appearance', 'notify'] as const
/** The most of a kind that are looked through, or shown. */
const most = 50
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Finds pages, tasks, contexts, agents, schedules, workers, settings and commands by a few letters. */
export default function Palette({
  open,
  onOpenChange,
  onHelp,
}: {
  open: boolean
  onOpenChange: (open: boolean) => void
  onHelp: () => void
}) {
  const { t, i18n } = useTranslation()
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const query = useDeferredValue(text.trim())
  const found = useFoundTasks(query)
  const contexts = useFoundContexts(query)
  const schedules = useQuery({ ...schedulesQuery, enabled: query !== '' })
  const fleet = useQuery(workers)
  const membridge = useMembridge()
  const agents = [...new Set((fleet.data ?? []).flatMap((w) => w.agents))].sort()
  const [chosen, setChosen] = useState('')
  // Tasks come after what is known already, and above it: the first is what Enter opens, unless another was chosen.
  const first = found[0] && wordsOf(found[0], query)
  useEffect(() => {
    if (first) setChosen(first)
  }, [first])
  const focus = useFocusBack()
  const run = (act: () => unknown) => () => {
    onOpenChange(false)
    void act()
  }
  return (
    <Dialog.Root open={open} onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Overlay className="appear fixed inset-0 z-40 bg-[#0b0a10]/45" />
        <Dialog.Content
          {...focus}
          aria-describedby={undefined}
          className="rise fixed top-[10vh] left-1/2 z-40 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 overflow-hidden rounded-xl border bg-raised shadow-float"
        >
          <Dialog.Title className="sr-only">{t('app.palette.title')}</Dialog.Title>
          <Command label={t('app.palette.title')} value={chosen} onValueChange={setChosen}>
            <Command.Input
              value={text}
              onValueChange={setText}
              placeholder={t('app.palette.placeholder')}
              className="h-12 w-full border-b bg-transparent px-4 text-[15px] outline-none placeholder:text-ink-3"
            />
            <Command.List className="max-h-[60dvh] overflow-y-auto p-1.5">
              {found.length + contexts.length === 0 && (
                <Command.Empty className="px-3 py-6 text-center text-ink-2">{t('app.palette.nothing')}</Command.Empty>
              )}
              {found.length > 0 && (
                <Command.Group heading={t('app.palette.tasks')} className={group} forceMount>
                  {found.map((task) => (
                    <Command.Item
                      key={task.id}
                      value={wordsOf(task, query)}
                      onSelect={run(() => navigate({ to: '/tasks/$taskId', params: { taskId: task.id } }))}
                      className={item}
                    >
                      <TaskBadge status={task.status} />
                      <span className="min-w-0 flex-1">
                        <span className="block truncate">
                          {task.snippet && !inOutput(task) ? <Snippet snippet={task.snippet} /> : task.prompt}
                        </span>
                        {task.snippet && inOutput(task) && (
                          <span className="block truncate text-xs text-ink-2">
                            <Snippet snippet={task.snippet} />
                          </span>
                        )}
                      </span>
                      <Id id={task.id} className="text-ink-3 max-sm:hidden" />
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {contexts.length > 0 && (
                <Command.Group heading={t('app.nav.contexts')} className={group} forceMount>
                  {contexts.map((c) => (
                    <Command.Item
                      key={c.id}
                      value={`context ${c.id} ${query}`}
                      onSelect={run(() => navigate({ to: '/contexts/$contextId', params: { contextId: c.id } }))}
                      className={item}
                    >
                      {isTaskStatus(c.last_status) && <TaskBadge status={c.last_status} />}
                      <span className="min-w-0 flex-1">
                        <span className="block truncate">{c.name || c.id}</span>
                        <span className="block truncate text-xs text-ink-2">{c.last_prompt}</span>
                      </span>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              <Command.Group heading={t('app.palette.pages')} className={group}>
                {pages
                  .filter(({ name }) => membridge || name !== 'membridge')
                  .map(({ to, name }) => (
                    <Command.Item
                      key={to}
                      value={t(`app.nav.${name}`)}
                      onSelect={run(() => navigate({ to }))}
                      className={item}
                    >
                      {t(`app.nav.${name}`)}
                    </Command.Item>
                  ))}
                <Command.Item
                  value={t('app.nav.docs')}
                  onSelect={run(() => navigate({ to: '/docs' }))}
                  className={item}
                >
                  {t('app.nav.docs')}
                </Command.Item>
              </Command.Group>
              {query !== '' && schedules.data && schedules.data.length > 0 && (
                <Command.Group heading={t('app.nav.schedules')} className={group}>
                  {schedules.data.slice(0, 4 * most).map((s) => (
                    <Command.Item
                      key={s.name}
                      value={`schedule ${s.name}`}
                      onSelect={run(() => navigate({ to: '/schedules/$name', params: { name: s.name } }))}
                      className={item}
                    >
                      <span className="flex-1 truncate">{s.name}</span>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {query !== '' && agents.length > 0 && (
                <Command.Group heading={t('app.palette.agents')} className={group}>
                  {agents.slice(0, 4 * most).map((agent) => (
                    <Command.Item
                      key={agent}
                      value={`agent ${agent}`}
                      onSelect={run(() => navigate({ to: '/tasks', search: { agent_slug: agent } }))}
                      className={item}
                    >
                      <span className="flex-1 truncate">{agent}</span>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {query !== '' && (
                <Command.Group heading={t('app.nav.settings')} className={group}>
                  {parts.map((part) => (
                    <Command.Item
                      key={part}
                      value={`${t('app.nav.settings')} ${t(`app.palette.settings.${part}`)}`}
                      onSelect={run(() => navigate({ to: '/settings', hash: part }))}
                      className={item}
                    >
                      {t(`app.palette.settings.${part}`)}
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {query !== '' && fleet.data && fleet.data.length > 0 && (
                <Command.Group heading={t('app.nav.workers')} className={group}>
                  {fleet.data.slice(0, most).map((worker) => (
                    <Command.Item
                      key={worker.id}
                      value={`worker ${worker.id}`}
                      onSelect={run(() => navigate({ to: '/workers/$workerId', params: { workerId: worker.id } }))}
                      className={item}
                    >
                      <span className="flex-1 truncate">{worker.id}</span>
                      <WorkerBadge worker={worker} />
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              <Command.Group heading={t('app.palette.actions')} className={group}>
                <Command.Item
                  value={t('app.newTask')}
                  onSelect={run(() => navigate({ to: '/tasks/new' }))}
                  className={item}
                >
                  {t('app.newTask')}
                </Command.Item>
                <Command.Item value={t('app.palette.light')} onSelect={run(() => setTheme('light'))} className={item}>
                  {t('app.palette.light')}
                </Command.Item>
                <Command.Item value={t('app.palette.dark')} onSelect={run(() => setTheme('dark'))} className={item}>
                  {t('app.palette.dark')}
                </Command.Item>
                <Command.Item
                  value={t('app.palette.language')}
                  onSelect={run(() => setLanguage(i18n.language === 'uk' ? 'en' : 'uk'))}
                  className={item}
                >
                  {t('app.palette.language')}
                </Command.Item>
                <Command.Item value={t('app.shortcuts.title')} onSelect={run(onHelp)} className={item}>
                  {t('app.shortcuts.title')}
                </Command.Item>
              </Command.Group>
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

/** What an item is known by: it has the words that were typed, so that it matches them. */
const wordsOf = (task: Task, query: string) => `task ${task.id} ${query}`

const inOutput = (task: Task) => task.snippet?.in === 'output'

function useFoundContexts(query: string): Context[] {
  const { data: found } = useQuery({
    queryKey: [...keys.contexts, 'palette', query],
    enabled: query.length >= 2,
    queryFn: () => data(api.GET('/api/runtime/contexts', { params: { query: { q: query, limit: 5 } } })),
    retry: false,
  })
  return query.length >= 2 ? (found ?? []) : []
}

function useFoundTasks(query: string) {
  const { data: found } = useQuery({
    queryKey: ['tasks', 'palette', query],
    enabled: query.length >= 2,
    queryFn: async () => {
      if (uuid.test(query)) {
        return [await data(api.GET('/api/runtime/llm-tasks/{id}', { params: { path: { id: query } } }))]
      }
      return data(api.GET('/api/runtime/llm-tasks', { params: { query: { q: query, limit: 5, preview: 300 } } }))
    },
    retry: false,
  })
  return query.length >= 2 ? (found ?? []) : []
}
