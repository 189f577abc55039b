import type { Page } from '@playwright/test'
import { browserOptions } from '../scripts/browser.mjs'
import { expect, test } from './fixtures'

const live = (page: Page) => page.getByText('Live', { exact: true })
// A browser has six connections to a server: a page that gets none never loads.
const soon = { timeout: 20_000 }

// As people have it: a browser keeps pages that were left.
test.use({ launchOptions: { ...browserOptions, ignoreDefaultArgs: ['--disable-back-forward-cache'] } })

test('ten tabs, then ten tasks, are open at once and current', async ({ context, runtime }) => {
  const word = `tabs-${Math.random()}`
  const tasks: string[] = []
  for (let i = 0; i < 10; i++) tasks.push((await runtime.task(`${word} ${i}`, { labels: ['nobody-has-it'] })).id)
  const tabs: Page[] = []
  for (const _ of tasks) {
    const tab = await context.newPage()
    tabs.push(tab)
    await tab.goto(runtime.url, soon)
    await expect(live(tab)).toBeVisible(soon)
  }
  for (const [i, tab] of tabs.entries()) {
    await tab.goto(`${runtime.url}/tasks/${tasks[i]}`, soon)
    await expect(tab.getByTestId('conversation')).toHaveAttribute('data-events', '1', soon)
  }
  for (const id of tasks) await runtime.api(`/llm-tasks/${id}/cancel`, {})
  for (const tab of tabs) {
    await expect(tab.getByTestId('conversation')).toHaveAttribute('data-events', '2', soon)
    await expect(tab.locator('main').getByText('Cancelled', { exact: true }).first()).toBeVisible(soon)
    await expect(live(tab)).toBeVisible(soon)
  }
})

test('a tab loads thirty times', async ({ page, runtime }) => {
  for (let i = 0; i < 30; i++) {
    await page.goto(`${runtime.url}/tasks?q=${i}`, soon)
    await expect(live(page)).toBeVisible(soon)
  }
})
