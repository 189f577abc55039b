import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { isTaskStatus, type TaskStatus } from '@/api/client'
import { approvesOnly, needsSignIn } from '@/api/session'
import { isStatus, type Status } from '@/features/approvals/use-approvals'
import { NotFound } from './not-found'
import { PageFailure } from './page-failure'
import { queryClient } from './query-client'
import { Shell } from './shell'
import { isRange, isSort, isView, type Range, type Sort, type TaskView as TaskTab } from './task-views'

/**
 * The reference of the API writes styles into its page, which the policy of the others
 * refuses. So it is a document of its own: whoever goes there or leaves loads the page.
 */
const isReference = (path: string) => path === '/docs'
const loadedAsReference = isReference(location.pathname)

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NotFound,
  beforeLoad: async ({ location: to, preload }) => {
    if (preload) return
    if (to.pathname !== '/sign-in' && needsSignIn(queryClient))
      throw redirect({ to: '/sign-in', search: { to: to.href }, replace: true })
    if (to.pathname !== '/approvals' && to.pathname !== '/sign-in' && approvesOnly(queryClient))
      throw redirect({ to: '/approvals', replace: true })
    if (isReference(to.pathname) === loadedAsReference) return
    location.assign(to.href)
    await new Promise(() => undefined) // the page goes
  },
})

const page = <P extends string>(path: P, load: () => Promise<{ default: React.ComponentType }>) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) })

const overview = page('/', () => import('@/features/overview/overview'))
const tasks = createRoute({
  getParentRoute: () => root,
  path: '/tasks',
  // The filters live in the address: a link shows the same list.
  validateSearch: (search: Record<string, unknown>): TaskFilters & TaskView => {
    const filters: TaskFilters & TaskView = {}
    if (isTaskStatus(search.status)) filters.status = search.status
    for (const name of ['agent_slug', 'context_id', 'worker_id', 'error_class', 'label', 'q', 'columns'] as const) {
      const value = search[name]
      if (value !== undefined && value !== '') filters[name] = String(value)
    }
    if (isRange(search.within)) filters.within = search.within
    if (isSort(search.sort)) filters.sort = search.sort
    return filters
  },
  component: lazyRouteComponent(() => import('@/features/tasks/tasks')),
})
const newTask = createRoute({
  getParentRoute: () => root,
  path: '/tasks/new',
  validateSearch: (search: Record<string, unknown>): NewTaskFrom => ({
    ...(search.from ? { from: String(search.from) } : {}),
    ...(search.context_id ? { context_id: String(search.context_id) } : {}),
    ...(search.agent_slug ? { agent_slug: String(search.agent_slug) } : {}),
  }),
  component: lazyRouteComponent(() => import('@/features/new-task/new-task')),
})
const task = createRoute({
  getParentRoute: () => root,
  path: '/tasks/$taskId',
  validateSearch: (search: Record<string, unknown>): { view?: TaskTab } =>
    isView(search.view) ? { view: search.view } : {},
  component: lazyRouteComponent(() => import('@/features/task/task')),
})
const approvals = createRoute({
  getParentRoute: () => root,
  path: '/approvals',
  validateSearch: (search: Record<string, unknown>): { status?: Status } =>
    isStatus(search.status) ? { status: search.status } : {},
  component: lazyRouteComponent(() => import('@/features/approvals/approvals')),
})
const contexts = createRoute({
  getParentRoute: () => root,
  path: '/contexts',
  validateSearch: (search: Record<string, unknown>): { q?: string } => (search.q ? { q: String(search.q) } : {}),
  component: lazyRouteComponent(() => import('@/features/contexts/contexts')),
})
const context = page('/contexts/$contextId', () => import('@/features/contexts/context'))
const schedules = page('/schedules', () => import('@/features/schedules/schedules'))
const schedule = page('/schedules/$name', () => import('@/features/schedules/schedule'))
const workers = page('/workers', () => import('@/features/workers/workers'))
const worker = page('/workers/$workerId', () => import('@/features/workers/worker'))
const leases = page('/leases', () => import('@/features/leases/leases'))
const artifacts = page('/artifacts', () => import('@/features/artifacts/artifacts'))
const audit = page('/audit', () => import('@/features/audit/audit'))
const membridge = page('/membridge', () => import('@/features/membridge/membridge'))
const settings = page('/settings', () => import('@/features/settings/settings'))
const docs = page('/docs', () => import('@/features/docs/docs'))
/** Why a sign-in at the provider failed. */
const refusals = ['sign_in_stale', 'sign_in_refused', 'no_role', 'sign_in_unavailable'] as const
type Refusal = (typeof refusals)[number]

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  // Where to go afterwards: an address of ours only.
  validateSearch: (search: Record<string, unknown>): { to?: string; error?: Refusal } => ({
    ...(typeof search.to === 'string' && /^\/(?![/\\])/.test(search.to) ? { to: search.to } : {}),
    ...(typeof search.error === 'string'
      ? { error: refusals.find((r) => r === search.error) ?? 'sign_in_unavailable' }
      : {}),
  }),
  component: lazyRouteComponent(() => import('@/features/sign-in/sign-in')),
})

export interface TaskFilters {
  status?: TaskStatus
  agent_slug?: string
  context_id?: string
  worker_id?: string
  error_class?: string
  /** Labels that the task requires, separated by commas. */
  label?: string
  within?: Range
  q?: string
}

/** How the list is shown. */
export interface TaskView {
  sort?: Sort
  /** The columns, separated by commas; absent: as the person chose. */
  columns?: string
}

export interface NewTaskFrom {
  /** A task to begin from. */
  from?: string
  context_id?: string
  agent_slug?: string
}

export const router = createRouter({
  routeTree: root.addChildren([
    overview,
    tasks,
    newTask,
    task,
    approvals,
    contexts,
    context,
    schedules,
    schedule,
    worker,
    workers,
    leases,
    artifacts,
    audit,
    membridge,
    settings,
    docs,
    signIn,
  ]),
  defaultErrorComponent: PageFailure,
  defaultPreload: 'intent',
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
  interface HistoryState {
    /** What was typed elsewhere and goes on in the form of a new task; an address would be too short for it. */
    prompt?: string
    files?: File[]
  }
}
