import { api, data, type Task } from '@/api/client'

/** The form as it is typed: texts, until they are sent. */
export interface Draft {
  prompt: string
  agent: string
  contextId: string
  timeout: string
  budget: string
  attempts: string
  format: 'text' | 'json'
  priority: string
  runAt: string
  labels: string
  hints: string
  ordered: boolean
  /** Globs of the files to keep. */
  artifacts: string
  ownFolder: boolean
}

export const emptyDraft = (): Draft => ({
  prompt: '',
  agent: 'assistant',
  contextId: '',
  timeout: '1800',
  budget: '0',
  attempts: '3',
  format: 'text',
  priority: '0',
  runAt: '',
  labels: '',
  hints: '',
  ordered: false,
  artifacts: '',
  ownFolder: false,
})

/** A draft that asks for the same as an earlier task. */
export const draftOf = (task: Task): Draft => ({
  ...emptyDraft(),
  prompt: task.prompt,
  agent: task.agent_slug,
  contextId: task.context_id,
  timeout: String(task.policy.timeout_sec),
  budget: String(task.policy.budget),
  attempts: String(task.max_attempts),
  format: task.desired_format,
  priority: String(task.priority),
  labels: (task.labels ?? []).join(', '),
  hints: (task.context_hints ?? []).join(', '),
  ordered: task.policy.ordered,
  artifacts: (task.policy.artifacts ?? []).join(', '),
  ownFolder: task.policy.workspace === 'context',
})

export const list = (text: string) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

/** What is sent. The server says what is wrong with it. */
export const bodyOf = (draft: Draft) => ({
  prompt: draft.prompt,
  agent_slug: draft.agent.trim(),
  context_id: draft.contextId.trim() || `web-${randomId()}`,
  policy: {
    timeout_sec: Number(draft.timeout),
    budget: Number(draft.budget),
    ordered: draft.ordered,
    ...(list(draft.artifacts).length > 0 ? { artifacts: list(draft.artifacts) } : {}),
    ...(draft.ownFolder ? { workspace: 'context' as const } : {}),
  },
  max_attempts: Number(draft.attempts),
  desired_format: draft.format,
  priority: Number(draft.priority),
  labels: list(draft.labels),
  context_hints: list(draft.hints),
  ...(draft.runAt ? { run_at: new Date(draft.runAt).getTime() } : {}),
})

/** Creates a task, with files as a form: the task is its first part. */
export const createTask = (draft: Draft, files: File[]) =>
  data<Task>(
    api.POST('/api/runtime/llm-tasks', {
      body: bodyOf(draft),
      bodySerializer: (body) => {
        const task = JSON.stringify(body)
        if (files.length === 0) return task
        const form = new FormData()
        form.append('task', task)
        for (const file of files) form.append('file', file)
        return form
      },
    }),
  )

/** Pages on plain HTTP have no crypto.randomUUID. */
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8))
  return [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('')
}
