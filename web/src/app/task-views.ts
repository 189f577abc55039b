/** The views of a task's page, as its address names them. */
export const taskViews = ['run', 'result', 'timeline', 'records'] as const
export type TaskView = (typeof taskViews)[number]
export const isView = (value: unknown): value is TaskView => (taskViews as readonly unknown[]).includes(value)

/** How far back the list of tasks goes, in seconds. */
export const ranges = { '1h': 3600, '24h': 86_400, '7d': 604_800, '30d': 2_592_000 } as const
export type Range = keyof typeof ranges
export const isRange = (value: unknown): value is Range => typeof value === 'string' && Object.hasOwn(ranges, value)

/** What the list of tasks is sorted by, with a minus before it where the largest comes first. The newest come first anyhow. */
export const sorts = ['created_at', '-duration', 'duration', '-cost', 'cost', '-tokens', 'tokens'] as const
export type Sort = (typeof sorts)[number]
export const isSort = (value: unknown): value is Sort => (sorts as readonly unknown[]).includes(value)
