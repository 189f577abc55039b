import type { Page } from '@playwright/test'
import { expect, test } from './fixtures'
import { Runtime } from './runtime'

const lists = [
  '/',
  '/tasks',
  '/contexts',
  '/workers',
  '/leases',
  '/artifacts',
  '/audit',
  '/membridge',
  '/settings',
  '/contexts/some',
  '/tasks/01a200c7-0126-7c60-9827-033779e6ccd8',
]

test('while a page is loaded its shape is shown; then what it is about', async ({ page, runtime }) => {
  for (const path of lists.filter((p) => !p.includes('01a2'))) {
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    await page.route('**/api/**', async (route) => {
      await gate
      await route.continue()
    })
    await page.goto(runtime.url + path)
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
    await expect(page.locator('main .late.breathe').first(), path).toBeVisible()
    // What is not known yet is neither zero nor nothing.
    await expect(page.locator('main').getByText(/^(0|\$0\.00|No workers yet|.* in 24 h)$/), path).toHaveCount(0)
    open()
    await expect(page.locator('main .late.breathe'), path).toHaveCount(0)
    await page.unrouteAll({ behavior: 'wait' })
  }
})

test('a refusal is said with what to do, and trying again helps', async ({ context, runtime }) => {
  test.setTimeout(300_000)
  const { id } = await runtime.task('Be there')
  await runtime.ended(id)
  const refused = async (page: Page, path: string) => {
    await page.route('**/api/**', (route) =>
      route.fulfill({
        status: 500,
        json: { error: 'The request could not be completed', code: 'internal', request_id: 'd3adb33f' },
      }),
    )
    await page.goto(runtime.url + path.replace(/01a2.*/, id))
    const alert = page.locator('main').getByRole('alert').first()
    await expect(alert, path).toContainText('The request could not be completed')
    await expect(alert, path).toContainText('Request d3adb33f')
    await page.unroute('**/api/**')
    await expect(async () => {
      // The page may have come back by itself meanwhile: it reads again when its connection is there.
      const again = alert.getByRole('button', { name: 'Try again' })
      if (await again.isVisible()) await again.click({ timeout: 1000 }).catch(() => undefined)
      await expect(alert, path).toBeHidden({ timeout: 2000 })
    }).toPass({ timeout: 60_000 })
    await page.close()
  }
  // A page asks twice more before it says so, which takes seconds: several wait at once.
  for (let i = 0; i < lists.length; i += 4)
    await Promise.all(lists.slice(i, i + 4).map(async (path) => refused(await context.newPage(), path)))
})

test('without a server each page says so, and comes back by itself', async ({ page }) => {
  test.setTimeout(300_000)
  const own = new Runtime()
  try {
    await own.startServer()
    await page.goto(own.url)
    await expect(page.getByText('Live', { exact: true })).toBeVisible()
    // Every page is kept, also those that were never opened.
    await expect
      .poll(() =>
        page.evaluate(async () => {
          const names: string[] = await (await fetch('/files.json')).json()
          const kept = await (await caches.open('bloom-shell')).keys()
          const there = new Set(kept.map((r) => new URL(r.url).pathname))
          return names.length > 20 && names.every((n) => there.has(n))
        }),
      )
      .toBe(true)
    await own.stopServer()
    await expect(page.getByText('Reconnecting…').first()).toBeVisible()
    await page.getByRole('navigation').getByText('Advanced').click()
    await page.getByRole('link', { name: 'Leases' }).click()
    await expect(page.locator('main').getByRole('alert')).toContainText('The server cannot be reached')
    await own.startServer()
    await expect(page.getByText('Live', { exact: true })).toBeVisible()
    await expect(page.locator('main').getByRole('alert')).toBeHidden()
    await expect(page.getByText('No leases')).toBeVisible()
    // On a phone, where the navigation is hidden, it is said above the page.
    await page.setViewportSize({ width: 360, height: 740 })
    await own.stopServer()
    await expect(page.getByText('Reconnecting…').last()).toBeInViewport()
  } finally {
    await own.close()
  }
})

test('a change shows within a second, and nothing above it moves', async ({ page, runtime }) => {
  await page.goto(`${runtime.url}/workers`)
  const above = page.getByRole('heading', { name: 'alpine-1' })
  await expect(above).toBeVisible()
  await expect(page.getByText('Live', { exact: true })).toBeVisible()
  const place = await above.boundingBox()
  /** How long after the server's answer the page shows the text, in milliseconds. */
  const delayOf = async (name: string) => {
    const seen = await page.evaluateHandle((text) => {
      const changed = new Promise<number>((resolve) => {
        const watch = new MutationObserver(() => {
          if (!document.body.innerText.includes(text)) return
          watch.disconnect()
          resolve(Date.now())
        })
        watch.observe(document.body, { childList: true, subtree: true, characterData: true })
      })
      return { changed }
    }, name)
    await runtime.api('/workers', { name, status: 'offline', capabilities: { claude_cli: false } })
    const done = Date.now()
    return (await seen.evaluate(({ changed }) => changed)) - done
  }
  // A machine that is busy may be late, not every time.
  const run = `quick-${Math.random()}`
  const delays: number[] = []
  while (delays.length < 30 && !delays.some((ms) => ms < 1000)) delays.push(await delayOf(`${run}-${delays.length}`))
  console.log(`a change showed after ${delays.join(', ')} ms`)
  expect(Math.min(...delays)).toBeLessThan(1000)
  await expect.poll(() => above.boundingBox()).toEqual(place)
  for (const i of delays.keys()) await runtime.remove(`/workers/${run}-${i}`)
})

test('every page survives a reload, and an unknown one says so', async ({ page, runtime }) => {
  const { id } = await runtime.task('Reload me', { context_id: 'reloaded' })
  await runtime.ended(id)
  const titles: Record<string, string | RegExp> = {
    '/': 'Overview',
    '/tasks?status=completed': 'Tasks',
    '/tasks/new': 'New task',
    [`/tasks/${id}?view=timeline`]: 'Reload me',
    '/contexts': 'Contexts',
    '/contexts/reloaded': 'reloaded',
    '/workers': 'Workers',
    '/leases': 'Leases',
    '/artifacts': 'Artifacts',
    '/audit': 'Audit',
    '/membridge': 'Membridge',
    '/settings': 'Settings',
    '/docs': 'API reference',
    '/nothing/here': 'Page not found',
  }
  const seen = new Set<string>()
  for (const [path, title] of Object.entries(titles)) {
    await page.goto(runtime.url + path)
    await page.reload()
    await expect(page.getByRole('heading', { level: 1 })).toHaveText(title)
    expect(new URL(page.url()).pathname + new URL(page.url()).search, path).toBe(path)
    await expect(page, path).toHaveTitle(/ · BLOOM$/)
    seen.add(await page.title())
  }
  expect(seen.size, 'each has a title of its own').toBe(Object.keys(titles).length)
  await page.goto(`${runtime.url}/tasks/01a200c7-0126-7c60-9827-033779e6ccd8`)
  await expect(page.getByRole('alert')).toContainText('Task not found')
  // Where no key is needed the sign-in says so.
  await page.goto(`${runtime.url}/sign-in`)
  await expect(page.getByText('This server needs no key')).toBeVisible()
  await page.getByRole('link', { name: 'Continue' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Overview' })).toBeVisible()
})
