import type { Page } from '@playwright/test'
import { expect, test } from './fixtures'
import { Postgres } from './postgres'
import { Runtime } from './runtime'

const key = 'a-key-for-the-browser-tests'
const live = (page: Page) => page.getByText('Live', { exact: true })

async function signIn(page: Page) {
  await page.getByLabel('Key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

test('while the database is away nothing is said to be fine', async ({ page }) => {
  const database = new Postgres()
  const own = new Runtime()
  try {
    await Promise.all([database.start(), own.startMembridge()])
    await own.startServer(key, ['--database-url', database.url])
    await page.goto(own.url)
    await signIn(page)
    await own.api('/llm-tasks', { prompt: 'One', agent_slug: 'assistant', context_id: 'one' }, key)
    await own.api('/workers', { name: 'idle', capabilities: { claude_cli: true } }, key)
    const fine = page.getByText('Everything is working')
    await expect(fine).toBeVisible()
    await expect(live(page)).toBeVisible()
    await database.stop()
    await expect(page.getByText('Storage is not responding').first()).toBeVisible()
    await expect(live(page)).toBeHidden()
    await expect(page.locator('main').getByRole('alert').first()).toBeVisible()
    await expect(fine).toBeHidden()
    await page.setViewportSize({ width: 360, height: 740 })
    await expect(page.getByText('Storage is not responding').last()).toBeInViewport()
    await page.setViewportSize({ width: 1280, height: 800 })
    await database.start()
    await expect(fine).toBeVisible()
    await expect(live(page)).toBeVisible()
  } finally {
    await own.close()
    await database.close()
  }
})

test('the list of tasks is current when one comes back to it', async ({ page, runtime }) => {
  const context = `back-${Math.random()}`
  const { id } = await runtime.task('Come back to me', { context_id: context, labels: ['nobody-has-it'] })
  await page.goto(`${runtime.url}/tasks?context_id=${context}`)
  const row = page.locator('[data-task]')
  await expect(row).toContainText('Queued')
  await expect(live(page)).toBeVisible()
  await row.getByRole('link').click()
  await expect(page).toHaveURL(new RegExp(id))
  await page.getByRole('button', { name: 'Cancel the task' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
  await expect(page.getByText('Cancelled', { exact: true }).first()).toBeVisible()
  await page.goBack()
  await expect(row).toContainText('Cancelled')
})

test('a tab whose sign-in ended asks for no changes until there is one again', async ({ page, context }) => {
  const own = new Runtime()
  try {
    await own.startServer(key)
    await page.clock.install()
    // What a tab asks for is seen only if it does so itself, as in browsers without shared workers.
    await page.addInitScript(() => Reflect.deleteProperty(globalThis, 'SharedWorker'))
    let asked = 0
    page.on('request', (request) => {
      if (request.url().endsWith('/api/runtime/events')) asked++
    })
    const refused: string[] = []
    page.on('response', (response) => response.status() === 401 && refused.push(response.url()))
    await page.goto(own.url)
    await signIn(page)
    await expect(live(page)).toBeVisible()
    expect(refused, 'asked before there was a sign-in').toEqual([])
    // The session ends elsewhere, and the stream with the server.
    await context.request.delete(`${own.url}/api/runtime/session`)
    await own.stopServer()
    await own.startServer(key)
    await expect(page).toHaveURL(/\/sign-in/)
    const before = asked
    for (let i = 0; i < 20; i++) {
      await page.clock.runFor(5_000)
      await page.evaluate(async () => void (await fetch('/healthz')))
    }
    expect(asked - before, 'requests for changes without a sign-in').toBeLessThanOrEqual(1)
    // Another tab signs in; this one notices when it is looked at.
    const again = page.waitForRequest('**/api/runtime/events')
    const other = await context.newPage()
    await other.goto(own.url)
    await signIn(other)
    await expect(live(other)).toBeVisible()
    await other.close()
    await page.evaluate(() => dispatchEvent(new Event('visibilitychange')))
    await again
    await expect(page).not.toHaveURL(/sign-in/)
  } finally {
    await own.close()
  }
})
