import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

test('a task is created in the form, streams as a conversation and shows its result', async ({ page, runtime }) => {
  await page.goto(`${runtime.url}/tasks/new`)
  await page.getByLabel('Prompt').fill('Build a small queue. scenario: tour')
  await expect(page.getByText('1 online worker can take it.')).toBeVisible()
  await page.keyboard.press('Control+Enter')
  await page.waitForURL(/\/tasks\/[0-9a-f-]{36}$/)
  await expect(page.getByText("I'll start by looking at what is in the folder.")).toBeVisible()
  await expect(page.getByRole('button', { name: /^Bash/ }).first()).toBeVisible()
  await expect(page.getByText('+6', { exact: true })).toBeVisible()
  await expect(page.getByText('The package has one exported type and no tests.')).toBeAttached()
  await expect(page.getByText('Completed', { exact: true }).first()).toBeVisible()
  await page.getByRole('tab', { name: 'Result' }).click()
  await expect(page.getByText('A queue that is safe to share')).toBeVisible()
  await expect(page.getByRole('cell', { name: 'O(1) amortised' })).toBeVisible()
  await page.getByRole('tab', { name: 'Artifacts and audit' }).click()
  await expect(page.getByRole('cell', { name: 'Task ended' })).toBeVisible()
  // The address is the page: a reload shows the same.
  await page.reload()
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Build a small queue')
})

test('a task is asked for on the overview, by an agent and in a context; what failed is there with what to do', async ({
  page,
  runtime,
}) => {
  const { id } = await runtime.task('Translate it. scenario: refused')
  expect(await runtime.ended(id)).toBe('failed')
  await page.goto(runtime.url)
  await expect(
    page
      .getByRole('list', { name: 'Newest failed tasks' })
      .getByRole('link', { name: /^Translate it\..*run it again/ }),
  ).toHaveAttribute('href', `/tasks/${id}`)
  await page.getByRole('button', { name: 'assistant · A new conversation' }).click()
  const ask = page.getByRole('form', { name: 'New task' })
  await ask.getByLabel('Agent').fill('reviewer')
  await ask.getByLabel('Context').fill('asked-here')
  await accessible(page)
  await ask.getByLabel('Prompt').fill('Say hello')
  await ask.getByLabel('Prompt').press('Enter')
  await page.waitForURL(/\/tasks\/[0-9a-f-]{36}$/)
  const made = await runtime.api<Record<string, unknown>>(`/llm-tasks/${page.url().split('/').at(-1)}`)
  expect(made).toMatchObject({ prompt: 'Say hello', agent_slug: 'reviewer', context_id: 'asked-here' })
  expect(await runtime.ended(String(made.id))).toBe('completed')
  // It is among the newest ones, with who did it; more than a sentence is asked for in the form.
  await page.goto(runtime.url)
  await expect(page.locator(`main a[href="/tasks/${made.id}"]`)).toContainText('revieweralpine-1')
  await ask.getByLabel('Prompt').fill('More than\na sentence')
  await page.getByRole('button', { name: 'assistant · A new conversation' }).click()
  await ask.getByRole('link', { name: 'More options' }).click()
  await expect(page.getByLabel('Prompt')).toHaveValue('More than\na sentence')
})

test('a failure says why and what to do, and the task can be requeued', async ({ page, runtime }) => {
  const { id } = await runtime.task('scenario: refused')
  expect(await runtime.ended(id)).toBe('failed')
  await page.goto(`${runtime.url}/tasks/${id}`)
  await expect(page.getByRole('alert')).toContainText('The model’s API refused the request')
  await expect(page.getByRole('alert')).toContainText('Correct the prompt and run it again with changes.')
  await page.getByRole('button', { name: 'Requeue' }).click()
  await expect(page.getByText('Back in the queue', { exact: true })).toBeVisible()
  await expect(page.getByText('Put back in the queue')).toBeVisible()
  // The page goes on with the second run by itself.
  await expect(page.getByRole('button', { name: 'Requeue' })).toBeVisible()
  await page.goto(`${runtime.url}/tasks?status=failed`)
  const row = page.getByRole('row').filter({ has: page.locator(`a[href$="${id}"]`) })
  await expect(row).toContainText('The model’s API refused the request')
})

test('a running task is cancelled', async ({ page, runtime }) => {
  const { id } = await runtime.task('scenario: hold')
  await page.goto(`${runtime.url}/tasks/${id}`)
  await expect(page.getByText('Session started')).toBeVisible()
  await page.getByRole('button', { name: 'Cancel the task' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
  await expect(page.getByText('Cancelled', { exact: true }).first()).toBeVisible()
  expect(await runtime.ended(id)).toBe('cancelled')
})

test('two tabs stay in step', async ({ page, context, runtime }) => {
  const other = await context.newPage()
  for (const tab of [page, other]) {
    await tab.goto(`${runtime.url}/tasks`)
    await expect(tab.getByText('Live', { exact: true })).toBeVisible()
  }
  const { id } = await runtime.task('Needs what nobody has', { labels: ['unobtainium'] })
  for (const tab of [page, other]) await expect(tab.locator(`[data-task="${id}"]`)).toBeVisible()
  await page.goto(`${runtime.url}/tasks/${id}`)
  await expect(page.getByText('No online worker has the label unobtainium')).toBeVisible()
  await page.getByRole('button', { name: 'Cancel the task' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
  await expect(other.locator(`[data-task="${id}"]`).getByText('Cancelled').filter({ visible: true })).toBeVisible()
})

test('tasks are cancelled and requeued together', async ({ page, runtime }) => {
  const context = `bulk-${Math.random()}`
  const ids: string[] = []
  for (let i = 0; i < 3; i++)
    ids.push((await runtime.task(`Bulk ${i}`, { labels: ['unobtainium'], context_id: context })).id)
  await page.goto(`${runtime.url}/tasks?context_id=${context}`)
  await expect(page.locator('[data-task]')).toHaveCount(3)
  const all = page.getByLabel('Select all loaded tasks')
  await all.check()
  await page.getByRole('button', { name: 'Cancel (3)' }).click()
  await page.getByRole('button', { name: 'Cancel the tasks' }).click()
  await expect(page.locator('[data-task]').getByText('Cancelled').filter({ visible: true })).toHaveCount(3)
  // The rows may change before the answer comes, which ends the choice.
  await expect(all).not.toBeChecked()
  await all.check()
  await page.getByRole('button', { name: 'Requeue (3)' }).click()
  await page.getByRole('button', { name: 'Requeue the tasks' }).click()
  await expect(page.locator('[data-task]').getByText('Queued').filter({ visible: true })).toHaveCount(3)
})

test('a view is saved under a name, chosen and deleted', async ({ page, runtime }) => {
  const name = `dead at night ${Math.random()}`
  await page.goto(`${runtime.url}/tasks?status=dead&agent_slug=writer&label=gpu,eu&within=7d&sort=-cost`)
  await page.getByRole('button', { name: 'Saved views' }).click()
  await page.getByRole('menuitem', { name: 'Save this view…' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill(name)
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click()
  await expect(page.getByRole('button', { name })).toBeVisible()
  await page.goto(`${runtime.url}/tasks`)
  await page.getByRole('button', { name: 'Saved views' }).click()
  await page.getByRole('menuitem', { name, exact: true }).click()
  await expect(page).toHaveURL(/status=dead/)
  await expect(page).toHaveURL(/agent_slug=writer&.*within=7d/)
  await expect(page).toHaveURL(/sort=-cost/)
  await expect(page.getByRole('searchbox', { name: 'Labels' })).toHaveValue('gpu,eu')
  await accessible(page)
  await page.getByRole('button', { name }).click()
  await page.getByRole('menuitem', { name: `Delete “${name}”…` }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click()
  await expect(page.getByRole('button', { name: 'Saved views' })).toBeVisible()
})

test('tasks are narrowed by label and time, sorted by what they cost, and shown with the chosen columns', async ({
  page,
}) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.api('/workers', { name: 'hand', capabilities: { claude_cli: true, max_concurrency: 9, labels: ['gpu'] } })
    const done = async (prompt: string, cost_usd: number, labels: string[]) => {
      const { id } = await own.task(prompt, { labels })
      const { lease } = await own.api<{ lease: { id: string } }>(`/llm-tasks/${id}/lease`, { worker_id: 'hand' })
      const metrics = { duration_ms: 1, cost_usd, tokens_used: 1234 }
      await own.api(`/llm-tasks/${id}/complete`, { lease_id: lease.id, status: 'success', output: 'x', metrics })
    }
    await done('Dear', 3, ['gpu'])
    await done('Cheap', 0.5, [])
    await done('Fair', 1, ['gpu'])
    await own.task('Waits', { labels: ['nowhere'] })
    await page.goto(`${own.url}/tasks`)
    const prompts = () => page.locator('[data-task] a').allInnerTexts()
    const row = page.getByRole('row').filter({ hasText: 'Dear' })
    await expect(row).toContainText('$3.00')
    expect(await prompts()).toEqual(['Waits', 'Fair', 'Cheap', 'Dear'])
    for (const internal of ['Id', 'Context', 'Attempts'])
      await expect(page.getByRole('columnheader', { name: internal })).toHaveCount(0)
    await page.getByRole('button', { name: 'Cost' }).click()
    await expect(page.getByRole('columnheader', { name: 'Cost' })).toHaveAttribute('aria-sort', 'descending')
    await expect.poll(prompts).toEqual(['Dear', 'Fair', 'Cheap', 'Waits'])
    await page.getByRole('button', { name: 'Cost' }).click()
    await expect.poll(prompts).toEqual(['Cheap', 'Fair', 'Dear', 'Waits'])
    const asked = page.waitForRequest(/llm-tasks\?.*label=gpu.*since=\d{13}/)
    await page.getByRole('combobox', { name: 'Created' }).selectOption('Last hour')
    await page.getByRole('searchbox', { name: 'Labels' }).fill('gpu')
    await asked
    await expect.poll(prompts).toEqual(['Fair', 'Dear'])
    await page.getByRole('button', { name: 'Columns' }).click()
    await page.getByRole('menuitemcheckbox', { name: 'Tokens' }).click()
    await page.getByRole('menuitemcheckbox', { name: 'Cost' }).click()
    await page.keyboard.press('Escape')
    await expect(row).toContainText(/1\.2K/i)
    await page.reload() // both are remembered
    await expect(row).toContainText(/1\.2K/i)
    await expect(page.getByRole('columnheader', { name: 'Cost' })).toHaveCount(0)
    await expect.poll(prompts).toEqual(['Fair', 'Dear'])
    await accessible(page)
    await page.getByRole('button', { name: 'All matching' }).click()
    await page.getByRole('menuitem', { name: 'Cancel all matching…' }).click()
    await expect(page.getByRole('dialog')).toContainText('Last hour')
    await expect(page.getByRole('dialog')).toContainText('Cancel 0 matching tasks?')
  } finally {
    await own.close()
  }
})

test('the language and the theme change at once and are remembered', async ({ page, runtime }) => {
  await page.goto(`${runtime.url}/`)
  await page.getByRole('button', { name: 'Account' }).click()
  await expect(page.getByRole('menu')).toContainText('No sign-in')
  await page.getByRole('menuitemradio', { name: 'Українська' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Огляд' })).toBeVisible()
  await expect(page.locator('html')).toHaveAttribute('lang', 'uk')
  await page.getByRole('button', { name: 'Обліковий запис' }).click()
  await page.getByRole('menuitemradio', { name: 'Темна' }).click()
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark')
  await page.reload()
  await expect(page.getByRole('heading', { level: 1, name: 'Огляд' })).toBeVisible()
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark')
  await page.getByRole('button', { name: 'Обліковий запис' }).click()
  await page.getByRole('menuitem', { name: 'Клавіатурні скорочення' }).click()
  await expect(page.getByRole('dialog', { name: 'Клавіатурні скорочення' })).toBeVisible()
})

test('the language is the browser’s at first, with its dates and numbers', async ({ browser, runtime }) => {
  for (const [locale, lang, title, clock] of [
    ['uk-UA', 'uk', 'Огляд', /\d{4}\sр\., \d{2}:\d{2}:\d{2}/],
    ['de-DE', 'en', 'Overview', /\w{3} \d{1,2}, \d{4}, \d{1,2}:\d{2}:\d{2}\s[AP]M/],
    ['en-GB', 'en', 'Overview', /\d{1,2} \w{3,4} \d{4}, \d{2}:\d{2}:\d{2}/],
  ] as const) {
    const context = await browser.newContext({ locale })
    const page = await context.newPage()
    await page.goto(runtime.url)
    await expect(page.getByRole('heading', { level: 1, name: title })).toBeVisible()
    await expect(page.locator('html')).toHaveAttribute('lang', lang)
    await page.goto(`${runtime.url}/audit`)
    await page.locator('td button').first().click()
    await expect(page.getByRole('dialog')).toContainText(clock)
    await context.close()
  }
})

test('the keyboard is enough', async ({ page, runtime }) => {
  await page.goto(`${runtime.url}/tasks`)
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  await page.keyboard.press('Tab')
  await expect(page.getByText('Skip to content')).toBeFocused()
  const search = page.getByLabel('Search prompts')
  await expect(search).toBeVisible()
  await page.locator('body').press('/')
  await expect(search).toBeFocused()
  await page.keyboard.press('Escape')
  await search.blur()
  await page.keyboard.press('?')
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible()
  await page.keyboard.press('Escape')
  await expect(page.getByRole('dialog')).toBeHidden()
  await page.keyboard.press('Control+k')
  await page.getByPlaceholder(/^A page, task/).fill('workers')
  await expect(page.getByRole('option', { name: 'Workers', exact: true })).toHaveAttribute('aria-selected', 'true')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/\/workers$/)
  await expect(page.getByRole('dialog')).toBeHidden()
  await expect(async () => {
    // The second key counts for a second after the first.
    await page.keyboard.press('g')
    await page.keyboard.press('t')
    await expect(page).toHaveURL(/\/tasks$/, { timeout: 2000 })
  }).toPass({ timeout: 60_000 })
})

test('a node is promoted to primary', async ({ page, runtime }) => {
  // Whoever led before, it is another node now.
  const select = '/projects/a1b2c3d4e5f60718/leadership/select'
  await runtime.atMembridge(select, { primary_node_id: 'alpine-1' })
  await page.goto(`${runtime.url}/membridge`)
  await expect(page.getByRole('heading', { name: 'handbook' })).toBeVisible()
  const row = page.getByRole('row').filter({ hasText: 'raspberry-2' })
  await row.getByRole('button', { name: 'Promote' }).click()
  const dialog = page.getByRole('dialog', { name: 'Make raspberry-2 the primary?' })
  await expect(dialog).toContainText('becomes a secondary')
  await dialog.getByRole('button', { name: 'Promote' }).click()
  await expect(page.getByText('raspberry-2 is the primary now')).toBeVisible()
  await expect(page.getByText('raspberry-2 leads')).toBeVisible()
  await expect(page.getByText(/^epoch \d+$/)).toBeVisible()
  await expect(page.getByText(/^until /)).toBeVisible()
})

test('an expired lease is marked; memory is pushed from the page, and the job shows what it printed', async ({
  page,
}) => {
  const own = new Runtime()
  try {
    await own.startMembridge()
    await own.startServer()
    await own.atMembridge('/projects/a1b2c3d4e5f60718/leadership/select', {
      primary_node_id: 'alpine-1',
      lease_seconds: 1,
    })
    await own.atMembridge('/agents', { name: 'absent-9' })
    await own.atMembridge('/agents', { name: 'alpine-1', interval_sec: 600 }) // it is alive without further heartbeats
    await own.atMembridge('/agents/alpine-1/heartbeat', {})
    await page.goto(`${own.url}/membridge`)
    await expect(page.getByText('expired', { exact: true })).toBeVisible()
    await expect(page.getByText('The lease of alpine-1 has expired')).toBeVisible()
    // An agent that is away does it not, and the page says why.
    await page.getByRole('button', { name: 'Pull' }).click()
    let dialog = page.getByRole('dialog', { name: 'Pull the memory of handbook?' })
    await expect(dialog).toContainText('backs up its database')
    await dialog.getByLabel('Agent').selectOption('absent-9')
    await dialog.getByRole('button', { name: 'Pull' }).click()
    await expect(dialog).toContainText('it never sent a heartbeat')
    await dialog.getByRole('button', { name: 'Go back' }).click()
    await expect(page.getByRole('row').filter({ hasText: 'absent-9' })).toContainText('Failed')
    await page.getByRole('button', { name: 'Push' }).click()
    dialog = page.getByRole('dialog', { name: 'Push the memory of handbook?' })
    await dialog.getByLabel('Agent').selectOption('alpine-1')
    await accessible(page)
    await dialog.getByRole('button', { name: 'Push' }).click()
    // The dialog of the job follows it.
    dialog = page.getByRole('dialog', { name: 'Output of push on alpine-1' })
    await expect(dialog).toContainText('the agent picks the job up with its next heartbeat')
    const { commands } = await own.atMembridge<{ commands: { id: string }[] }>('/agents/alpine-1/heartbeat', {})
    const report = { job_id: commands[0]?.id, status: 'completed', stdout: 'pushed 1284 observations', returncode: 0 }
    await own.atMembridge('/agents/alpine-1/heartbeat', { reports: [report] })
    await expect(dialog).toContainText('pushed 1284 observations')
    await expect(dialog).toContainText('exit code 0')
    await page.keyboard.press('Escape')
    const row = page.getByRole('row').filter({ hasText: 'push' })
    await expect(row).toContainText('Completed')
    await row.getByRole('button', { name: 'Show the output' }).click()
    await expect(page.getByRole('dialog')).toContainText('pushed 1284 observations')
  } finally {
    await own.close()
  }
})

test('a task that ends in the background is notified; the application opens without its server', async ({
  page,
  context,
}) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await context.grantPermissions(['notifications'], { origin: own.url })
    await page.goto(`${own.url}/settings`)
    await page.getByRole('button', { name: 'Turn on' }).click()
    await expect(page.getByRole('button', { name: 'Turn off' })).toBeVisible()
    await expect(page.getByText('Live', { exact: true })).toBeVisible()
    await page.evaluate(async () => {
      const worker = await navigator.serviceWorker.ready
      const seen: string[] = []
      Object.assign(window, { seen })
      ServiceWorkerRegistration.prototype.showNotification = async (title, options) => {
        seen.push(`${title}: ${options?.body} → ${options?.data.to}`)
      }
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })
      return worker.scope
    })
    const { id } = await own.task('Tell me when it is over')
    await own.api(`/llm-tasks/${id}/cancel`, {})
    const seen = () => page.evaluate(() => (window as unknown as { seen: string[] }).seen)
    await expect.poll(seen).toEqual([`Task cancelled: Tell me when it is over → /tasks/${id}`])
    // A task that asks is told apart, with its question.
    await own.startWorker()
    const asking = await own.task('scenario: asks')
    await expect
      .poll(seen)
      .toContain(`Task finished with a question: Which of them should I change? → /tasks/${asking.id}`)
    await page.reload() // its files are kept now
    await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeVisible()
    await own.stopServer()
    await page.reload()
    await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeVisible()
    await expect(page.getByText('Reconnecting…').first()).toBeVisible()
  } finally {
    await own.close()
  }
})

test('a key is created, shown once and revoked', async ({ page }) => {
  const own = new Runtime()
  const admin = 'a-key-for-the-browser-tests'
  try {
    await own.startServer(admin)
    await page.goto(`${own.url}/settings`)
    await page.getByLabel('Key').fill(admin)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect(page.getByText('No keys created here yet')).toBeVisible()
    await page.getByRole('button', { name: 'New key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('pi in the attic')
    await dialog.getByLabel('Role').selectOption('worker')
    await dialog.getByLabel('Worker’s name').fill('pi-1')
    await dialog.getByRole('button', { name: 'Create the key' }).click()
    await expect(dialog.getByText('It will not be shown again')).toBeVisible()
    const key = await dialog.getByText(/^blm_/).innerText()
    expect(await own.role(key)).toBe('worker')
    await accessible(page)
    await page.reload()
    const row = page.getByRole('row', { name: /pi in the attic/ })
    await expect(row).toContainText('only as pi-1')
    await expect(row).toContainText('Active')
    expect(await page.content()).not.toContain(key)
    await accessible(page)
    await row.getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).click()
    await expect(row).toContainText('Revoked')
    await expect.poll(() => own.role(key)).toBe(undefined)
    // The line that adds a worker gets a fresh key, which the server takes.
    await page.goto(`${own.url}/workers`)
    await page.getByLabel('Worker’s name').fill('pi-2')
    await page.getByRole('button', { name: 'Insert a new key' }).click()
    const line = page.getByText(`curl -fsSL ${own.url}/install.sh | sudo sh -s -- --name pi-2 --key blm_`)
    await expect(line).toBeVisible()
    expect(await own.role((await line.innerText()).split(' ').at(-1) ?? '')).toBe('worker')
    await page.goto(`${own.url}/settings`)
    await expect(page.getByRole('row', { name: /^pi-2,/ })).toContainText('only as pi-2')
    await page.goto(`${own.url}/workers`)
    await page.reload()
    await expect(page.getByText('--key KEY')).toBeVisible()
  } finally {
    await own.close()
  }
})

test('the first key ends development mode and the page stays', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await page.goto(`${own.url}/settings`)
    await page.getByRole('button', { name: 'New key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('me')
    await dialog.getByLabel('Role').selectOption('admin')
    await dialog.getByRole('button', { name: 'Create the key' }).click()
    await expect(dialog.getByText(/^blm_/)).toBeVisible()
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    await expect(page.getByRole('row', { name: /^me Admin/ })).toContainText('Active')
    await expect(page.getByText('Signed in as me (Admin)')).toBeVisible()
  } finally {
    await own.close()
  }
})

test('a server with keys asks for one, and takes none that is wrong', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer('a-key-for-the-browser-tests')
    await page.goto(`${own.url}/tasks`)
    await expect(page).toHaveURL(/\/sign-in/)
    await expect(page.getByText('This server asks for a key.')).toBeVisible()
    await page.getByLabel('Key').fill('a-key-that-nobody-knows')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect(page.getByText('The server does not know this key')).toBeVisible()
    await page.getByLabel('Key').fill('a-key-for-the-browser-tests')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect(page).toHaveURL(/\/tasks$/)
    await expect(page.getByText('No tasks yet')).toBeVisible()
    await expect(page.getByText('Live', { exact: true })).toBeVisible()
    // The key is in the page's memory only.
    expect(
      await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])),
    ).not.toContain('browser-tests')
    // The command that adds a worker works as it is shown.
    await page.goto(`${own.url}/workers`)
    own.runShown(await page.getByText('bloom worker --runtime-url').innerText(), 'a-key-for-the-browser-tests')
    await expect(page.getByText('Online', { exact: true })).toBeVisible()
  } finally {
    await own.close()
  }
})
