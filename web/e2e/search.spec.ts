import { accessible, expect, test } from './fixtures'

test('a search shows where it found tasks and runs nothing of it', async ({ page, runtime }) => {
  const { id } = await runtime.task('Count the walruses <img src=x onerror=alert(1)> in the zoo', {
    context_id: 'search',
  })
  await runtime.ended(id)
  page.on('dialog', () => {
    throw new Error('the prompt ran')
  })
  await page.goto(`${runtime.url}/tasks`)
  // The index follows about a second later: the search is made again until it has.
  await expect(async () => {
    await page.goto(`${runtime.url}/tasks?q=walrus`)
    await expect(page.locator('mark', { hasText: 'walruses' }).first()).toBeVisible({ timeout: 2000 })
  }).toPass({ timeout: 60_000 })
  await expect(page.locator('table img')).toHaveCount(0)
  await expect(page.getByText('<img src=x').first()).toBeVisible()
  await accessible(page)
  await page.goto(`${runtime.url}/tasks?q=${encodeURIComponent('"& ( | ! <-> *')}`)
  await expect(page.getByText('No task matches')).toBeVisible()
  await page.keyboard.press('Control+k')
  await page.getByRole('dialog').getByRole('combobox').fill('walruses zoo')
  await expect(page.getByRole('dialog').locator('mark', { hasText: 'walruses' }).first()).toBeVisible()
})

test('the overview says what the server finds wrong', async ({ page, runtime }) => {
  const task = await runtime.task('For a machine that is not there', { labels: ['no-such-label'] })
  await page.goto(runtime.url)
  await expect(page.getByText(/waits? for a worker with the label no-such-label/)).toBeVisible()
  await runtime.api(`/llm-tasks/${task.id}/cancel`, {})
  await expect(page.getByText(/waits? for a worker with the label no-such-label/)).toHaveCount(0)
})

test('a worker’s last log lines are shown', async ({ page, runtime }) => {
  await runtime.ended((await runtime.task('Something to log')).id)
  await page.goto(`${runtime.url}/workers`)
  // Other workers that tests registered have no log.
  await page.getByRole('button', { name: 'Actions for alpine-1' }).click()
  await page.getByRole('menuitem', { name: 'Last log lines' }).click()
  await expect(page.getByRole('list', { name: 'Last log lines' }).getByText('INFO').first()).toBeVisible()
  await accessible(page)
  await page.keyboard.press('Escape')
  await expect(page.getByRole('list', { name: 'Last log lines' })).toBeHidden()
  await expect(page.getByRole('heading', { level: 1, name: 'Workers' })).toBeVisible()
})
