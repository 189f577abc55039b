/** The views of a task's page, as its address names them. */
export const taskViews = ['run', 'result', 'timeline', 'records'] as const
export type TaskView = (typeof taskViews)[number]
export const isView = (value: unknown): value is TaskView => (taskViews as readonly unknown[]).includes(value)
