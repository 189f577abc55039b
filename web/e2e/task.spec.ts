import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

test('each tool has its card, a subagent is nested under its call, and thinking is folded', async ({
  page,
  runtime,
}) => {
  const { id } = await runtime.task('Build a small queue. scenario: tour')
  expect(await runtime.ended(id)).toBe('completed')
  await page.goto(`${runtime.url}/tasks/${id}`)
  const run = page.getByTestId('conversation')
  const bash = run.getByRole('button', { name: /^Bash echo/ })
  await expect(bash).toHaveAttribute('aria-expanded', 'false')
  await bash.click()
  await expect(run.getByText('3 files, 214 lines').last()).toBeVisible()
  const thinking = run.getByRole('button', { name: 'Thinking' })
  await expect(thinking).toHaveAttribute('aria-expanded', 'false')
  const thought = run.getByText('A channel has a fixed size')
  await expect(thought).toHaveCount(0)
  await thinking.click()
  await expect(thought).toBeVisible()
  const edit = run.locator('[data-seq]').filter({ has: page.getByRole('button', { name: /^Edit/ }) })
  await expect(edit.locator('pre')).toContainText('func (q *Queue[T]) Pop() (v T, ok bool) {')
  await expect(edit.getByText('+6', { exact: true })).toBeVisible()
  await expect(edit.getByText('queue.go', { exact: true })).toBeVisible() // not the whole path
  await expect(edit.getByText('return', { exact: true }).first()).toHaveClass(/keyword/)
  await expect(run.getByText('lock', { exact: true })).toHaveJSProperty('tagName', 'STRONG') // Markdown
  const agent = run.locator('[data-seq]').filter({ has: page.getByRole('button', { name: /^Agent/ }) })
  await agent.scrollIntoViewIfNeeded()
  await expect(agent.getByText('The package has one exported type and no tests.').last()).toBeVisible()
  await edit.scrollIntoViewIfNeeded()
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await accessible(page, 'colours')
  }
})

test('tokens and cost count up while it runs, and its past is there at once', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.startWorker()
    const { id } = await own.task('Count. scenario: endless')
    await page.goto(`${own.url}/tasks/${id}`)
    await expect(page.getByText('Step B of the count.')).toBeVisible()
    const usage = page.getByLabel('Details')
    const cost = async () => Number(/\$([\d.]+)/.exec(await usage.innerText())?.[1] ?? 0)
    await expect.poll(cost).toBeGreaterThan(0)
    const before = await cost()
    await expect.poll(cost).toBeGreaterThan(before)
    // Opened late, it shows what was before and goes on.
    await page.reload()
    await expect(page.getByText('Step A of the count.')).toBeVisible()
    await expect(page.getByText('Following the run')).toBeVisible()
    await expect(page.getByText('Step B of the count.')).toHaveCount(1)
    await own.api(`/llm-tasks/${id}/cancel`, {})
    expect(await own.ended(id)).toBe('cancelled')
    await expect(page.getByText(/^End of the run: \d+ events$/)).toBeVisible()
    await expect(page.getByText('Step A of the count.')).toHaveCount(1)
    await expect(page.getByTestId('conversation')).toHaveAttribute('data-last', /\d+/)
  } finally {
    await own.close()
  }
})

test('a worker dies in a run: the timeline says why, and another goes on', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.startWorker('first', ['--lease-ttl', '15s'])
    const { id } = await own.task('scenario: hold')
    await page.goto(`${own.url}/tasks/${id}`)
    await expect(page.getByText('Session started')).toBeVisible()
    await own.killWorker('first')
    await expect(page.getByText('The lease expired')).toBeVisible()
    await expect(page.getByText('Queued', { exact: true }).first()).toBeVisible()
    await own.startWorker('second')
    const first = page.getByRole('button', { name: /^Attempt 1 first The lease expired/ })
    await expect(first).toHaveAttribute('aria-expanded', 'false')
    await expect(page.getByText('Session started')).toHaveCount(1)
    await first.click()
    await expect(page.getByText('Session started')).toHaveCount(2)
    await page.getByRole('button', { name: /^Attempt 2 second/ }).click()
    await expect(page.getByText('Session started')).toHaveCount(1)
    await page.getByRole('tab', { name: 'Timeline' }).click()
    await expect(page.getByRole('listitem').filter({ hasText: 'run 1 · first' }).last()).toContainText(
      'The lease expired',
    )
    await expect(page.getByRole('listitem').filter({ hasText: 'run 2 · second' }).last()).toContainText('Running')
    await page.getByRole('button', { name: 'Cancel the task' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
    expect(await own.ended(id)).toBe('cancelled')
  } finally {
    await own.close()
  }
})

test('the timeline has turns, tools and subagents with what they took, also of a long run', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.api('/workers', { name: 'writer' })
    const { id } = await own.task('A long run')
    const { lease } = await own.api<{ lease: { id: string } }>(`/llm-tasks/${id}/lease`, { worker_id: 'writer' })
    const at = Date.now()
    const tool = (name: string, key: string, more: object = {}) => [
      { type: 'tool_use', at, data: { id: key, name, input: { command: `echo ${key}` }, ...more } },
      { type: 'tool_result', at: at + 1500, data: { id: key, text: '', is_error: key === 'bad' } },
    ]
    const events = [
      { type: 'session', at, data: {} },
      { type: 'usage', at, data: { input_tokens: 900, tokens_used: 1000 } },
      ...tool('Bash', 'bad'),
      { type: 'text', at: at + 1600, data: { text: 'I let another one look.' } },
      ...tool('Agent', 'agent', { input: { description: 'Have a look' } }),
      ...tool('Read', 'inner', { parent: 'agent' }),
      ...Array.from({ length: 2500 }, (_, i) => tool('Bash', `number ${i}`)).flat(),
    ]
    const posted = await fetch(`${own.url}/api/runtime/llm-tasks/${id}/events?lease_id=${lease.id}`, {
      method: 'POST',
      body: events.map((event, i) => JSON.stringify({ seq: i + 1, ...event })).join('\n'),
    })
    expect(posted.ok).toBe(true)
    await page.goto(`${own.url}/tasks/${id}?view=timeline`)
    const lines = page.getByRole('list', { name: 'Turns and tools' }).getByRole('listitem')
    await expect(lines.nth(0)).toContainText('Turn 1')
    await expect(lines.nth(0)).toContainText('1,000 tokens')
    await expect(lines.nth(1)).toHaveText(/Bash.*echo bad.*Failed.*1\.5s/)
    await expect(lines.nth(3)).toHaveText(/Agent.*Have a look/)
    await expect(lines.nth(4)).toHaveText(/Read/)
    await expect(lines.nth(0)).toHaveAttribute('aria-setsize', '5005')
    expect(await lines.count()).toBeLessThan(80)
    await accessible(page)
    await expect(async () => {
      // Lines that are measured on the way make the page longer.
      await page.keyboard.press('End')
      await expect(lines.filter({ hasText: 'echo number 2499' })).toBeInViewport({ timeout: 1000 })
    }).toPass({ timeout: 60_000 })
    expect(await lines.count()).toBeLessThan(80)
  } finally {
    await own.close()
  }
})

test('a run that asks or was denied a tool says so, and can be answered', async ({ page, runtime }) => {
  const asks = await runtime.task('scenario: asks', { context_id: 'asking', agent_slug: 'writer' })
  const denied = await runtime.task('scenario: denied')
  expect(await runtime.ended(asks.id)).toBe('completed')
  await page.goto(`${runtime.url}/tasks/${asks.id}`)
  const question = page.getByRole('region', { name: 'It ended with a question' })
  await expect(question).toContainText('Which of them should I change?')
  await accessible(page)
  await page.getByRole('link', { name: 'More options' }).click()
  await expect(page.getByLabel('Context', { exact: true })).toHaveValue('asking')
  await expect(page.getByLabel('Agent', { exact: true })).toHaveValue('writer')
  expect(await runtime.ended(denied.id)).toBe('completed')
  await page.goto(`${runtime.url}/tasks/${denied.id}`)
  await expect(page.getByRole('region', { name: 'It completed, but with a warning' })).toContainText(
    'claude was not permitted to use WebFetch',
  )
  // Once in the note and once where it happened in the run.
  await expect(page.getByText(/^End of the run/)).toBeVisible()
  await expect(page.getByText('claude was not permitted to use WebFetch')).toHaveCount(2)
  await accessible(page)
})

test('a result is a tree, is copied and saved; its artifact opens', async ({ page, context, runtime }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: runtime.url })
  const { id } = await runtime.task('scenario: json', { desired_format: 'json' })
  expect(await runtime.ended(id)).toBe('completed')
  await page.goto(`${runtime.url}/tasks/${id}?view=result`) // the view is in the address
  await expect(page.getByText('packages', { exact: false }).first()).toBeVisible()
  await expect(page.getByText('"queue"')).toBeVisible()
  await page.getByRole('button', { name: 'Copy the output' }).click()
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toContain('"packages"')
  const saving = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download' }).click()
  const saved = await saving
  expect(saved.suggestedFilename()).toMatch(/^result-.*\.json$/)
  expect(JSON.parse(readFileSync(await saved.path(), 'utf8'))).toMatchObject({ ok: true })
  await page.getByRole('tab', { name: 'Artifacts and audit' }).click()
  await expect(page).toHaveURL(/view=records/)
  await page.getByRole('button', { name: 'Result' }).click()
  await expect(page.getByRole('dialog')).toContainText('packages')
  await accessible(page)
  await page.keyboard.press('Escape')
  await expect(page.getByRole('cell', { name: 'Task ended' })).toBeVisible()
})

test('a task is run again with changes, and its context is continued', async ({ page, runtime }) => {
  const { id } = await runtime.task('Say something short', {
    context_id: 'to-be-continued',
    agent_slug: 'writer',
    labels: ['unobtainium'],
    policy: { timeout_sec: 77, budget: 5000 },
    priority: 3,
  })
  await page.goto(`${runtime.url}/tasks/${id}`)
  await page.getByRole('link', { name: 'Run again with changes' }).click()
  await expect(page.getByRole('textbox', { name: 'Prompt' })).toHaveValue('Say something short')
  await expect(page.getByText('No online worker has all these labels')).toBeVisible()
  await page.getByText('More options').click()
  await expect(page.getByLabel('Time limit, seconds')).toHaveValue('77')
  await expect(page.getByLabel('Token budget')).toHaveValue('5000')
  await expect(page.getByLabel('Priority')).toHaveValue('3')
  await page.getByLabel('Labels').fill('')
  await expect(page.getByText('1 online worker can take it.')).toBeVisible()
  await expect(page.getByText('Continues the conversation with everything said so far.')).toBeVisible()
  await page.getByRole('button', { name: 'Create the task' }).click()
  await expect(page).not.toHaveURL(/new/)
  await expect(page.getByText('Completed', { exact: true }).first()).toBeVisible()
  await page.getByRole('link', { name: 'More options' }).click()
  await expect(page.getByLabel('Context', { exact: true })).toHaveValue('to-be-continued')
})

test('the form offers the agents that workers know, and sends every policy', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    const agents = path.join(own.dir, 'agents')
    mkdirSync(agents)
    writeFileSync(path.join(agents, 'reviewer.md'), 'You review.')
    await own.startWorker('knows', ['--agents-dir', agents])
    await page.goto(`${own.url}/tasks/new`)
    await expect(
      page.getByText('Known to the workers: reviewer. Any other name runs claude without extra instructions.'),
    ).toBeVisible()
    await page.getByLabel('Agent', { exact: true }).fill('reviewer')
    await expect(page.getByText('Known to knows')).toBeVisible()
    await page.getByLabel('Prompt').fill('Wait for the right time')
    await page.getByText('More options').click()
    await page.getByLabel('Start at').fill('2099-01-02T03:04')
    await page.getByLabel('Files to keep').fill('out/**, *.log')
    await page.getByLabel('Wait for the earlier ordered tasks of this context').check()
    await page.getByRole('button', { name: 'Create the task' }).click()
    await page.waitForURL(/\/tasks\/[0-9a-f-]{36}$/)
    await expect(page.getByText(/It is scheduled for .*2099/)).toBeVisible()
    const task = await own.api<{ policy: unknown; agent_slug: string }>(`/llm-tasks/${page.url().split('/').at(-1)}`)
    expect(task).toMatchObject({ agent_slug: 'reviewer', policy: { artifacts: ['out/**', '*.log'], ordered: true } })
    await page.goto(`${own.url}/workers`)
    await expect(page.getByText('reviewer')).toBeVisible()
  } finally {
    await own.close()
  }
})
