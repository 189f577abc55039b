import type { Page } from '@playwright/test'
import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

const badge = (page: Page) => page.getByRole('navigation').getByRole('link', { name: /^Approvals/ })

test('a run asks, and goes on as the page decides', async ({ browser }) => {
  const own = new Runtime()
  const context = await browser.newContext({ locale: 'en-GB', reducedMotion: 'reduce' })
  try {
    await own.startServer()
    await own.startWorker('alpine-1', ['--approval-grace', '1ms'])
    const page = await context.newPage()
    await page.goto(`${own.url}/approvals`)
    await expect(page.getByText('Nothing waits for you')).toBeVisible()
    await expect(page.getByText(/bloom run --ask/)).toBeVisible()

    // Suspended: decided in the inbox, with the keyboard.
    const policy = { ask: ['Bash(echo *)', 'Edit'] }
    const { id } = await own.task('Build a queue. scenario: tour', { policy })
    const bash = page.getByRole('group', { name: 'May Bash run?' })
    await expect(bash).toContainText("$ echo 'package queue'; echo '3 files, 214 lines'")
    await expect(badge(page)).toHaveText('Approvals1')
    await expect(bash.getByRole('link', { name: 'Build a queue. scenario: tour' })).toBeVisible()
    await accessible(page)
    await page.emulateMedia({ colorScheme: 'dark' })
    await accessible(page, 'colours')
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390)
    await page.setViewportSize({ width: 1280, height: 800 })
    await bash.getByRole('button', { name: 'Allow' }).focus()
    await page.keyboard.press('Enter')
    await expect(page.getByText('Allowed: the run goes on')).toBeVisible()

    // The next is denied on the task's page, with a reason.
    await page.goto(`${own.url}/tasks/${id}`)
    await expect(page.getByText('It waits for a person to decide what it asked')).toBeVisible()
    const edit = page.getByRole('group', { name: 'May Edit run?' })
    await expect(edit.getByText('func (q *Queue[T]) Pop() (v T, ok bool) {').first()).toBeVisible()
    await accessible(page)
    await edit.getByRole('button', { name: 'Deny' }).click()
    await expect(edit.getByLabel('Why not?')).toBeFocused()
    await edit.getByRole('button', { name: 'Cancel' }).click()
    await expect(edit.getByRole('button', { name: 'Deny' })).toBeFocused()
    await page.keyboard.press('Enter')
    await page.keyboard.type('Not on a Friday')
    await edit.getByRole('button', { name: 'Deny' }).click()
    expect(await own.ended(id)).toBe('completed')
    await expect(edit).toBeHidden()

    await page.goto(`${own.url}/approvals`)
    await expect(page.getByText('Nothing waits for you')).toBeVisible()
    await expect(badge(page)).toHaveText('Approvals')
    await page.getByLabel('Status').selectOption('Denied')
    await expect(edit).toContainText(/Decided by .* · Not on a Friday/)
    await accessible(page)
  } finally {
    await context.close()
    await own.close()
  }
})

test('a live run asks a question, which only those who may answer can', async ({ page, runtime }) => {
  const { id } = await runtime.task('Choose. scenario: question', { policy: { questions: true } })
  const asked = page.getByRole('group', { name: 'Claude has a question' })
  let role = 'viewer'
  await page.route('**/api/runtime/session', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...(await response.json()), role } })
  })
  await page.goto(`${runtime.url}/tasks/${id}`)
  await expect(page.getByText('It asked a person, and waits for the decision')).toBeVisible()
  await expect(asked).toContainText('PostgreSQL: For several servers')
  await expect(asked.getByRole('button', { name: /Answer|Deny/ })).toHaveCount(0)

  // Who may only approve sees nothing else.
  role = 'approver'
  await page.reload()
  await expect(page).toHaveURL(/\/approvals$/)
  await expect(page.getByRole('navigation').getByRole('link')).toHaveCount(1)
  const answer = asked.getByRole('button', { name: 'Answer' })
  await asked.getByRole('radio', { name: 'PostgreSQL' }).check()
  await expect(answer).toBeDisabled()
  await asked.getByRole('checkbox', { name: 'Queue' }).check()
  await asked.getByRole('checkbox', { name: 'Worker' }).check()
  await asked.getByLabel('In your own words: Which parts need tests?').fill('the store')
  await accessible(page)
  await answer.click()
  expect(await runtime.ended(id)).toBe('completed')
  const [was] = await runtime.api<{ answers: object }[]>(`/approvals?task_id=${id}`)
  expect(was?.answers).toEqual({
    'Which database should I use?': 'PostgreSQL',
    'Which parts need tests?': 'Queue, Worker, the store',
  })
})

test('what somebody else has decided meanwhile is said', async ({ page, runtime }) => {
  const { id } = await runtime.task('Build. scenario: tour', { policy: { ask: ['Bash(echo *)'] } })
  await page.route('**/api/runtime/approvals/*', async (route) => {
    if (route.request().method() === 'POST') {
      const { input_sha256 } = route.request().postDataJSON()
      const path = new URL(route.request().url()).pathname.replace('/api/runtime', '')
      await runtime.api(path, { decision: 'deny', input_sha256, message: 'Not on a Friday' })
    }
    await route.continue()
  })
  await page.goto(`${runtime.url}/tasks/${id}`)
  await page.getByRole('button', { name: 'Allow' }).click()
  await expect(page.getByText(/^Another decision came first: Denied by .+, .+: Not on a Friday$/)).toBeVisible()
  expect(await runtime.ended(id)).toBe('completed')
})
