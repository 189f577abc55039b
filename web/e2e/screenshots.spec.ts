import path from 'node:path'
import type { Page } from '@playwright/test'
import { expect, test } from './fixtures'
import { Runtime } from './runtime'

// `make screenshots` sets where they go; the tests leave this file out.
const to = process.env.SCREENSHOTS ?? ''
/** Which pictures are taken, by their names; all of them when it is not set. */
const only = new RegExp(process.env.SCREENSHOTS_ONLY ?? '')

/** Hiding it would write a style into the page, which its policy refuses. */
const caret = 'initial'

const looks = [
  { name: 'light', width: 1440, scheme: 'light', language: 'en' },
  { name: 'dark', width: 1440, scheme: 'dark', language: 'en' },
  { name: 'narrow', width: 360, scheme: 'light', language: 'en' },
  { name: 'ukrainian', width: 1440, scheme: 'light', language: 'uk' },
] as const

const pages = {
  overview: '/',
  tasks: '/tasks',
  'new-task': '/tasks/new',
  contexts: '/contexts',
  schedules: '/schedules',
  workers: '/workers',
  leases: '/leases',
  artifacts: '/artifacts',
  audit: '/audit',
  membridge: '/membridge',
  settings: '/settings',
  docs: '/docs',
  'sign-in': '/sign-in',
  'not-found': '/nothing/here',
}

/** Waits until nothing of the page is a shape of what is to come. */
async function loaded(page: Page) {
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  await expect(page.locator('main .late.breathe')).toHaveCount(0)
}

async function shoot(page: Page, url: string, name: string) {
  if (!only.test(name)) return
  await page.goto(url)
  await loaded(page)
  await page.waitForTimeout(900)
  const running = name.startsWith('task-running')
  if (running) {
    await page.getByRole('button', { name: /^(To the end|До кінця)$/ }).click()
    await expect(page.locator('[data-seq]').last()).toBeInViewport()
  }
  // All of the page, but for the reference, which is as long as the API is large, and a run, of which what is in sight exists.
  const size = page.viewportSize() ?? { width: 1280, height: 800 }
  if (!running && !url.endsWith('/docs')) {
    // A window as high as the page: what a list leaves out of sight is drawn, too.
    const height = await page.evaluate(() => document.documentElement.scrollHeight)
    await page.setViewportSize({ width: size.width, height: Math.max(size.height, height) })
    await page.waitForTimeout(600)
  }
  await page.screenshot({ caret, path: path.join(to, `${name}.png`) })
  await page.setViewportSize(size)
}

/** Dialogs and menus, which no address opens. */
async function shootDialogs(page: Page, runtime: Runtime, look: string, language: 'en' | 'uk') {
  if (!only.test(`dialog-${look}`)) return
  const say = (en: string, uk: string) => (language === 'en' ? en : uk)
  const shot = async (name: string) => {
    await page.waitForTimeout(500)
    await page.screenshot({ caret, path: path.join(to, `dialog-${name}-${look}.png`) })
    await page.keyboard.press('Escape')
  }
  await page.goto(`${runtime.url}/audit`)
  await page
    .getByRole('button', { name: say('Task ended', 'Завдання завершено') })
    .first()
    .click()
  await shot('audit')
  await page.goto(`${runtime.url}/tasks?status=failed`)
  await page.getByRole('button', { name: say('All matching', 'Усі відповідні') }).click()
  await page.getByRole('menuitem', { name: say('Requeue all matching…', 'Повернути в чергу всі відповідні…') }).click()
  await shot('matching')
  for (const name of ['page.html', 'waits.csv', 'chart.svg']) {
    await page.goto(`${runtime.url}/artifacts`)
    await page.getByRole('button', { name }).first().click()
    await shot(`artifact-${name}`)
  }
  await page.goto(`${runtime.url}/workers`)
  await page.getByRole('button', { name: say('Actions for alpine-1', 'Дії для alpine-1') }).click()
  await page.getByRole('menuitem', { name: say('Last log lines', 'Останні рядки журналу') }).click()
  await shot('logs')
  await page.keyboard.press('Control+k')
  await page.getByRole('dialog').getByRole('combobox').fill('queue')
  await shot('palette')
  await page.getByRole('button', { name: say('Account', 'Обліковий запис') }).click()
  await shot('account')
  await page.goto(`${runtime.url}/membridge`)
  await page
    .getByRole('button', { name: say('Promote', 'Зробити'), disabled: false })
    .first()
    .click()
  await shot('promote')
  if (look === 'narrow') {
    await page.getByRole('button', { name: 'Open the navigation' }).click()
    await shot('navigation')
  }
}

async function fill(runtime: Runtime): Promise<Record<string, string>> {
  const tour = await runtime.task(
    'Build a small queue package that is safe to share, and have it reviewed.\n\nscenario: tour',
    { agent_slug: 'reviewer', context_id: 'queue-package' },
  )
  const refused = await runtime.task('Translate the handbook. scenario: refused', {
    agent_slug: 'translator',
    context_id: 'handbook',
  })
  const json = await runtime.task('List the packages and their tests. scenario: json', {
    agent_slug: 'reviewer',
    context_id: 'queue-package',
    desired_format: 'json',
  })
  for (let i = 1; i <= 6; i++)
    await runtime.task(`Summarise chapter ${i} of the handbook`, {
      agent_slug: 'writer',
      context_id: `handbook-${Math.ceil(i / 2)}`,
    })
  const files = await runtime.task('Write a report about the queue, with a chart and a page. scenario: files', {
    agent_slug: 'analyst',
    context_id: 'report',
    policy: { artifacts: ['out/**'] },
  })
  const waiting = await runtime.task('Train the small model', {
    agent_slug: 'trainer',
    context_id: 'training',
    labels: ['gpu'],
  })
  await runtime.task('Nightly report', { agent_slug: 'writer', context_id: 'reports', run_at: Date.now() + 7_200_000 })
  await runtime.api('/workers', {
    name: 'raspberry-2',
    status: 'offline',
    capabilities: { max_concurrency: 1, labels: ['arm'] },
    agent_version: '0.3.0',
    os_info: 'linux/arm64',
  })
  await runtime.schedule('nightly review', { cron: '0 3 * * 1-5' })
  await runtime.api('/schedules/nightly%20review/run', {})
  for (const { id } of [tour, refused, json, files]) await runtime.ended(id)
  const running = await runtime.task('Count slowly, step by step. scenario: endless', {
    agent_slug: 'counter',
    context_id: 'counting',
    policy: { timeout_sec: 3600 },
  })
  const status = async () => (await runtime.api<{ status: string }>(`/llm-tasks/${running.id}`)).status
  await expect.poll(status, { timeout: 120_000 }).toBe('running')
  return {
    task: `/tasks/${tour.id}`,
    'task-failed': `/tasks/${refused.id}`,
    'task-waiting': `/tasks/${waiting.id}`,
    'task-running': `/tasks/${running.id}`,
    'task-json': `/tasks/${json.id}?view=result`,
    'task-result': `/tasks/${tour.id}?view=result`,
    'task-timeline': `/tasks/${tour.id}?view=timeline`,
    'task-records': `/tasks/${files.id}?view=records`,
    'tasks-failed': '/tasks?status=failed',
    context: '/contexts/queue-package',
    schedule: '/schedules/nightly%20review',
    worker: '/workers/alpine-1',
  }
}

test('full', async ({ browser, runtime }) => {
  test.setTimeout(1_800_000)
  const all = { ...pages, ...(await fill(runtime)) }
  for (const look of looks) {
    const context = await browser.newContext({
      viewport: { width: look.width, height: 900 },
      colorScheme: look.scheme,
      locale: look.language,
    })
    const page = await context.newPage()
    for (const [name, address] of Object.entries(all)) await shoot(page, runtime.url + address, `${name}-${look.name}`)
    await shootDialogs(page, runtime, look.name, look.language)
    await context.close()
  }
})

test('empty', async ({ page }) => {
  test.setTimeout(300_000)
  const own = new Runtime()
  try {
    await own.startServer()
    for (const [name, address] of Object.entries(pages)) await shoot(page, own.url + address, `${name}-empty`)
  } finally {
    await own.close()
  }
})

test('broken', async ({ page, runtime }) => {
  test.setTimeout(300_000)
  await page.route('**/api/**', (route) =>
    route.fulfill({
      status: 500,
      json: { error: 'The request could not be completed', code: 'internal', request_id: 'd3adb33f' },
    }),
  )
  for (const [name, address] of Object.entries({ ...pages, task: '/tasks/01a200c7-0126-7c60-9827-033779e6ccd8' })) {
    await page.goto(runtime.url + address)
    await loaded(page) // what failed is tried again first
    await page.waitForTimeout(900)
    await page.screenshot({ caret, path: path.join(to, `${name}-broken.png`), fullPage: true })
  }
})

test('keys', async ({ browser }) => {
  test.setTimeout(300_000)
  const own = new Runtime()
  const admin = 'a-key-for-the-pictures'
  try {
    await own.startServer(admin)
    for (const spec of [
      { name: 'deployment', role: 'client', expires_at: Date.now() + 30 * 86_400_000 },
      { name: 'pi in the attic', role: 'worker', worker_id: 'pi-1' },
      { name: 'wall board', role: 'viewer' },
    ])
      await fetch(`${own.url}/api/runtime/keys`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Runtime-API-Key': admin },
        body: JSON.stringify(spec),
      })
    for (const look of looks) {
      const context = await browser.newContext({
        viewport: { width: look.width, height: 900 },
        colorScheme: look.scheme,
        locale: look.language,
      })
      const page = await context.newPage()
      await shoot(page, `${own.url}/sign-in`, `sign-in-key-${look.name}`)
      await context.request.post(`${own.url}/api/runtime/session`, { data: { key: admin } })
      await shoot(page, `${own.url}/workers`, `add-worker-${look.name}`)
      await page.goto(`${own.url}/settings`)
      await page.getByRole('table').evaluate((table) => table.scrollIntoView({ block: 'center' }))
      await page.waitForTimeout(900)
      await page.screenshot({ caret, path: path.join(to, `keys-${look.name}.png`) })
      await context.close()
    }
  } finally {
    await own.close()
  }
})
