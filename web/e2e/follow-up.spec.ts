import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

/** A server without workers: what they would report, the tests do. */
async function alone(run: (own: Runtime) => Promise<void>, key = '', flags: string[] = []) {
  const own = new Runtime()
  try {
    await own.startServer(key, flags)
    await run(own)
  } finally {
    await own.close()
  }
}

const task = (own: Runtime, prompt: string, context_id: string) =>
  own.api<{ id: string }>('/llm-tasks', { prompt, agent_slug: 'assistant', context_id })

async function lease(own: Runtime, id: string, worker: string, slots: number) {
  await own.api('/workers', {
    name: worker,
    capabilities: { claude_cli: true, max_concurrency: slots, labels: ['quiet'] },
  })
  return (await own.api<{ lease: { id: string } }>(`/llm-tasks/${id}/lease`, { worker_id: worker })).lease.id
}

async function answered(own: Runtime, id: string, output: string) {
  const lease_id = await lease(own, id, 'a-hand', 9)
  await own.api(`/llm-tasks/${id}/complete`, {
    lease_id,
    ...(output ? { status: 'success', output } : { status: 'error', error_message: 'out of ideas' }),
  })
}

test('Enter continues a conversation from its task and from its context', async ({ page }) => {
  await alone(async (own) => {
    const { id } = await own.task('Name the release', {
      agent_slug: 'writer',
      context_id: 'names',
      labels: ['quiet'],
      policy: { timeout_sec: 77 },
    })
    await answered(own, id, 'Two names are free.\n\nShall it be Heron or Lynx?')
    await page.goto(`${own.url}/tasks/${id}`)
    await page.getByRole('button', { name: 'Answer it' }).click()
    const composer = page.getByRole('textbox', { name: 'Continue the conversation' })
    await expect(composer).toBeFocused()
    await composer.pressSequentially('Heron.')
    await composer.press('Shift+Enter')
    await composer.pressSequentially('And say why.')
    await composer.press('Enter')
    await expect(page.getByRole('heading', { level: 1, name: 'Heron.' })).toBeVisible()
    await expect(page).not.toHaveURL(new RegExp(id))
    const next = page.url().split('/').at(-1) ?? ''
    expect(await own.api(`/llm-tasks/${next}`)).toMatchObject({
      prompt: 'Heron.\nAnd say why.',
      context_id: 'names',
      agent_slug: 'writer',
      labels: ['quiet'],
      policy: { timeout_sec: 77, ordered: true },
    })
    await page.goto(`${own.url}/contexts/names`)
    await composer.fill('Lynx after all')
    await composer.press('Enter')
    await expect(page.getByRole('listitem').filter({ hasText: 'Lynx after all' })).toBeInViewport()
    await expect(page.getByRole('listitem').filter({ hasText: 'Two names are free.' })).toContainText(
      'Name the release',
    )
    await expect(composer).toHaveValue('')
    await page.getByRole('link', { name: 'More options' }).click()
    await expect(page.getByRole('region', { name: 'The conversation so far' })).toContainText('Lynx after all')
    // One that others do not wait for would be lost to the conversation beside another.
    const { id: alone } = await task(own, 'By itself', 'alone')
    await page.goto(`${own.url}/contexts/alone`)
    await expect(page.getByText('By itself')).toBeVisible()
    await expect(composer).toHaveCount(0)
    await answered(own, alone, 'Done')
    await expect(composer).toBeVisible()
  })
})

test('a task whose cancellation is answered late does not stay about to be cancelled', async ({ page }) => {
  await alone(async (own) => {
    const { id } = await task(own, 'Cancel me', 'cancelled')
    const lease_id = await lease(own, id, 'a-hand', 9)
    await page.route('**/cancel', async (route) => {
      const answer = await route.fetch()
      await own.api(`/llm-tasks/${id}/complete`, { lease_id, status: 'error', error_message: 'cancelled' })
      await expect(page.locator('main').getByRole('button', { name: 'Requeue', includeHidden: true })).toBeVisible()
      await route.fulfill({ response: answer })
    })
    await page.goto(`${own.url}/tasks/${id}`)
    await page.getByRole('button', { name: 'Cancel the task' }).click()
    const answer = page.waitForResponse('**/cancel')
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
    await answer
    await expect(page.getByRole('dialog')).toBeHidden()
    await expect(page.getByRole('button', { name: 'Requeue' })).toBeVisible()
    await expect(page.locator('main').getByText('Cancelling')).toHaveCount(0)
  })
})

test('Enter opens the task that the palette shows first', async ({ page }) => {
  await alone(async (own) => {
    const { id } = await task(own, 'Count the workers of the settings', 'palette')
    // The index follows about a second later.
    await expect.poll(() => own.api<unknown[]>('/llm-tasks?q=workers'), { intervals: [200] }).toHaveLength(1)
    await page.goto(own.url)
    await page
      .getByRole('banner')
      .getByRole('button', { name: /^Search/ })
      .click()
    const palette = page.getByRole('dialog')
    // Known at once are pages of these names; the task comes later, above them.
    await palette.getByRole('combobox').fill('workers')
    const found = palette.getByRole('option').filter({ hasText: 'Count the workers' })
    await expect(found).toBeVisible()
    await expect(found).toHaveAttribute('aria-selected', 'true')
    await page.keyboard.press('Enter')
    await expect(page).toHaveURL(new RegExp(id))
  })
})

test('a server without membridge does not show it', async ({ page }) => {
  await alone(
    async (own) => {
      for (const path of ['/', '/settings', '/workers']) {
        await page.goto(own.url + path)
        await expect(page.getByRole('link', { name: 'Settings' })).toBeVisible()
        await expect(page.getByText('SQLite').first()).toBeVisible()
        await expect(page.getByText(/membridge/i)).toHaveCount(0)
      }
      await page.keyboard.press('Control+k')
      await page.getByRole('dialog').getByRole('combobox').fill('membridge')
      await expect(page.getByRole('dialog').getByText('Nothing found')).toBeVisible()
    },
    '',
    ['--no-membridge'],
  )
})

test('what is used daily comes first, and membridge where one answers', async ({ page, runtime }) => {
  const nav = page.getByRole('navigation', { name: 'Main' })
  await page.goto(runtime.url)
  await expect(nav.getByRole('link', { name: 'Membridge' })).toBeVisible()
  await expect(nav.getByRole('link', { name: /^Leases/ })).toBeHidden()
  await alone(async (own) => {
    await page.goto(own.url)
    await expect(page.getByText('SQLite').first()).toBeVisible()
    const names = async () => (await nav.getByRole('link').allInnerTexts()).map((text) => text.split('\n')[0])
    expect(await names()).toEqual([
      'Overview',
      'Tasks',
      'Approvals',
      'Contexts',
      'Artifacts',
      'Schedules',
      'Workers',
      'Settings',
    ])
    await nav.getByText('Advanced').click()
    expect((await names()).slice(-3)).toEqual(['Leases', 'Audit', 'API reference'])
    await accessible(page)
    await page.goto(`${own.url}/audit`) // open where one is in it
    await expect(nav.getByRole('link', { name: 'Audit' })).toHaveAttribute('aria-current', 'page')
    await expect(nav.getByRole('link', { name: 'Leases' })).toBeVisible()
  })
})

test('slots are those of the workers that are there', async ({ page }) => {
  await alone(async (own) => {
    for (let i = 0; i < 3; i++) await lease(own, (await task(own, `Task ${i}`, `slots-${i}`)).id, 'gone', 3)
    await own.api('/workers', {
      name: 'gone',
      status: 'offline',
      capabilities: { claude_cli: true, max_concurrency: 3 },
    })
    await own.api('/workers', { name: 'here', capabilities: { claude_cli: true, max_concurrency: 2 } })
    await page.goto(own.url)
    await expect(page.locator('main').getByText('0 of 2 slots').first()).toBeVisible()
    await expect(page.getByText('3 of 2 slots')).toHaveCount(0)
    await own.api('/workers', { name: 'gone', capabilities: { claude_cli: true, max_concurrency: 2 } })
    await page.goto(`${own.url}/workers`)
    await expect(page.getByText('3 tasks, 2 slots')).toBeVisible()
  })
})

test('commands for other machines are shown where they can work, with their key', async ({ page }) => {
  const key = 'an-admin-key-for-the-commands'
  await alone(async (own) => {
    await page.goto(own.url)
    await page.getByLabel('Key').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    const main = page.locator('main')
    await expect(main.getByText(/^bloom task run .*--key-file bloom\.key/)).toBeVisible()
    await expect(main.getByText(/^bloom worker .*--key-file worker\.key/)).toBeVisible()
    await page.goto(`${own.url}/workers`)
    await expect(main.getByText('listens on loopback only')).toBeVisible()
    await expect(main.getByText(/^bloom server --listen 0\.0\.0\.0/)).toBeVisible()
    await page.goto(`${own.url}/settings`)
    await expect(main.getByText('No keys created here yet')).toBeVisible()
    await expect(main.getByText('keys of its settings')).toBeVisible()
  }, key)
})

test('a phone shows what artifacts are, and who did what; empty results are left out', async ({ page }) => {
  await page.setViewportSize({ width: 360, height: 740 })
  await alone(async (own) => {
    await answered(own, (await task(own, 'Good', 'phone')).id, 'An answer')
    await answered(own, (await task(own, 'Bad', 'phone-2')).id, '')
    await page.goto(`${own.url}/artifacts`)
    const rows = page.locator('tbody tr')
    await expect(page.getByText('No files', { exact: true })).toBeVisible()
    await page.getByRole('button', { name: 'Show results' }).click()
    await expect(rows).toHaveCount(1)
    await expect(rows.getByRole('button', { name: 'Result' })).toBeInViewport()
    await page.getByLabel('Empty results of failed attempts').check()
    await expect(rows).toHaveCount(2)
    await page.goto(`${own.url}/audit`)
    const leased = rows.filter({ hasText: 'a-hand' }).first()
    await expect(leased.getByText('a-hand').first()).toBeInViewport()
  })
})

test('a form says what is missing in the language of the application, and a phone shows all tabs', async ({ page }) => {
  await page.addInitScript(() => localStorage.setItem('bloom.language', 'uk'))
  await alone(async (own) => {
    await page.goto(`${own.url}/tasks/new`)
    await page.getByRole('button', { name: 'Створити завдання' }).click()
    const prompt = page.locator('textarea')
    await expect(prompt).toBeFocused()
    await expect(prompt).toHaveAccessibleDescription('Заповніть це поле.')
    await prompt.fill('Щось')
    await expect(page.getByText('Заповніть це поле.')).toHaveCount(0)
    const { id } = await task(own, 'На телефоні', 'tabs')
    await page.setViewportSize({ width: 360, height: 740 })
    await page.goto(`${own.url}/tasks/${id}`)
    await expect(page.getByRole('tab').last()).toBeInViewport({ ratio: 1 })
  })
})
