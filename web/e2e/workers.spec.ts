import { expect, test } from './fixtures'
import { Runtime } from './runtime'

test('a worker’s page says what it runs, how, and why it takes nothing', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.startWorker()
    await own.ended((await own.task('Paint the fence')).id)
    await page.goto(`${own.url}/workers`)
    await page.getByRole('link', { name: 'alpine-1' }).click()
    await expect(page.getByText('Yes, it takes tasks from the queue.')).toBeVisible()
    await expect(page.getByRole('link', { name: 'Paint the fence' })).toBeVisible()
    const about = page.getByRole('definition')
    await expect(about.filter({ hasText: /^\d+\.\d+\.\d+$/ })).toBeVisible() // claude's version
    await expect(about.filter({ hasText: 'acceptEdits' })).toBeVisible()
    await expect(about.filter({ hasText: 'API key' })).toBeVisible()
    await expect(about.filter({ hasText: `${own.dir}/work` })).toBeVisible()
    await expect(page.getByRole('img', { name: /Slots in use/ })).toBeVisible()
    const log = page.getByRole('list', { name: 'Last log lines' })
    await page.getByLabel('Filter the lines').fill('registered')
    await expect(log.getByRole('listitem').first()).toContainText('registered')
    await page.getByLabel('Level').selectOption('Errors')
    await expect(page.getByText('No line matches')).toBeVisible()
    await page.getByRole('button', { name: 'Actions for alpine-1' }).click()
    await page.getByRole('menuitem', { name: 'Drain: take no more tasks' }).click()
    await expect(page.getByText('No: it is drained here.')).toBeVisible()
    await own.killWorker('alpine-1')
    await own.api('/workers', {
      name: 'limited',
      capabilities: { max_concurrency: 2 },
      pause: { until: Date.now() + 600_000, class: 'rate_limited', reason: 'the weekly limit is reached' },
    })
    await page.goto(`${own.url}/workers/limited`)
    await expect(page.getByText('the weekly limit is reached')).toBeVisible()
  } finally {
    await own.close()
  }
})

test('on a phone the list of tasks is sorted, and says what its columns would', async ({ page, runtime }) => {
  const prompt = `Of a phone ${Math.random()}`
  await runtime.ended((await runtime.task(prompt, { context_id: 'in a pocket' })).id)
  await page.setViewportSize({ width: 390, height: 800 })
  await page.goto(`${runtime.url}/tasks`)
  const row = page.getByRole('row', { name: prompt })
  await expect(row).toContainText('Completed')
  await expect(row).not.toContainText('in a pocket')
  await page.getByRole('button', { name: 'Columns' }).click()
  await page.getByRole('menuitemcheckbox', { name: 'Context' }).click()
  await page.keyboard.press('Escape')
  await expect(row).toContainText('Context: in a pocket')
  await page.getByLabel('Sort by').selectOption('Longest first')
  await expect(page).toHaveURL(/sort=-duration/)
})
