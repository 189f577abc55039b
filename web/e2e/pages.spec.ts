import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

const pages = [
  '/',
  '/tasks',
  '/tasks/new',
  '/approvals',
  '/contexts',
  '/schedules',
  '/workers',
  '/leases',
  '/artifacts',
  '/audit',
  '/membridge',
  '/settings',
  '/docs',
  '/sign-in',
  '/nothing/here',
]

for (const half of [0, 1]) {
  test(`axe finds nothing on any page in either theme (half ${half + 1})`, async ({ page, runtime }) => {
    test.setTimeout(600_000) // axe takes seconds a page, many for the reference
    const context = `pages-${Math.random()}`
    const { id } = await runtime.task('For every page. scenario: tour', { context_id: context })
    expect(await runtime.ended(id)).toBe('completed')
    await runtime.schedule('every page')
    const all = [
      ...pages,
      `/tasks/${id}`,
      `/tasks/${id}?view=result`,
      `/contexts/${context}`,
      '/workers/alpine-1',
      '/schedules/every%20page',
    ]
    for (const path of all.filter((_, i) => i % 2 === half)) {
      await test.step(path, async () => {
        await page.emulateMedia({ colorScheme: 'light' })
        await page.goto(runtime.url + path)
        await expect(page.getByRole('heading', { level: 1 })).toHaveCount(1)
        await expect(page.locator('[role="status"] .sr-only', { hasText: 'Loading' })).toHaveCount(0)
        await expect(page).toHaveTitle(/ · BLOOM$/)
        await accessible(page)
        // The other theme changes colours alone.
        await page.emulateMedia({ colorScheme: 'dark' })
        await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark')
        await accessible(page, 'colours')
      })
    }
  })
}

test('no page is wider than a phone', async ({ page, runtime }) => {
  await page.setViewportSize({ width: 360, height: 740 })
  const { id } = await runtime.task(`Hold on to a line that is long. ${'long '.repeat(40)} scenario: hold`)
  await expect.poll(async () => (await runtime.api<{ status: string }>(`/llm-tasks/${id}`)).status).toBe('running')
  await runtime.schedule('on a phone')
  const more = [`/tasks/${id}`, `/tasks/${id}?view=timeline`, `/tasks/${id}?view=records`]
  for (const path of [...pages, ...more, '/workers/alpine-1', '/schedules/on%20a%20phone']) {
    await page.goto(runtime.url + path)
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
    await expect(page.locator('[role="status"] .sr-only', { hasText: 'Loading' })).toHaveCount(0)
    if (path === '/workers') await expect(page.getByRole('list', { name: 'Running now' })).toBeVisible()
    await expect
      .poll(() => page.evaluate(() => document.documentElement.scrollWidth), { message: path })
      .toBeLessThanOrEqual(360)
  }
  await runtime.api(`/llm-tasks/${id}/cancel`, {})
})

test('the address space of the API is not the application', async ({ request, runtime }) => {
  for (const path of ['/api/runtime/nothing', '/api', '/docs/nothing', '/metrics/nothing']) {
    const answer = await request.get(runtime.url + path, { headers: { Accept: 'text/html' } })
    expect(answer.status(), path).toBe(404)
    expect(answer.headers()['content-type'], path).toContain('json')
  }
})

test('the first screen is light and quick', async ({ page, runtime }) => {
  const scripts: string[] = []
  page.on('response', (response) => {
    if (response.request().resourceType() === 'script') scripts.push(response.url())
  })
  await runtime.ended((await runtime.task('So that the chart is there')).id)
  await page.goto(runtime.url)
  await expect(page.getByRole('heading', { name: 'History' })).toBeVisible()
  await expect(page.locator('.uplot canvas')).toBeVisible()
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0)
  const first = [...scripts] // what another page needs comes later
  await page.getByRole('navigation').getByText('Advanced').click()
  const before = Date.now()
  await page.getByRole('link', { name: 'Leases' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Leases' })).toBeVisible()
  const took = Date.now() - before
  let bytes = 0
  for (const url of first) {
    const answer = await page.request.fetch(url, { method: 'HEAD', headers: { 'Accept-Encoding': 'gzip' } })
    expect(answer.headers()['content-encoding'] ?? '').toBe('gzip')
    bytes += Number(answer.headers()['content-length'])
  }
  console.log(
    `first screen: ${Math.round(bytes / 1000)} kB of JavaScript, gzip, first contentful paint ${Math.round(paint)} ms, another page after ${took} ms`,
  )
  expect(bytes).toBeLessThan(200_000)
})

/** What stays as it is in every language: names, commands, versions, and what model and provider said. */
const foreign =
  /bloom[\w -]*|claude[\w .-]*|BLOOM Runtime|--[\w-]+|scenario: \w+|Switch to English|API Error: 400 the request was refused|I could not read the page|I'll read the page|"Summarise it"/g

test('the pages in Ukrainian have no English of ours, also where workers speak', async ({ browser }) => {
  const own = new Runtime()
  const view = await browser.newContext({ locale: 'uk-UA' })
  try {
    await own.startMembridge()
    await own.startServer()
    await own.startWorker()
    const task = (scenario: string, more = {}) =>
      own.task(`Переклади посібник. scenario: ${scenario}`, { context_id: 'уроки', agent_slug: 'перекладач', ...more })
    const refused = await task('refused', { context_hints: ['немає.txt'], policy: { artifacts: ['немає/*'] } })
    const denied = await task('denied')
    const waits = await task('plain', { labels: ['відеокарта'] })
    expect(await own.ended(refused.id)).toBe('failed')
    expect(await own.ended(denied.id)).toBe('completed')
    const page = await view.newPage()
    const found: string[] = []
    const look = async (path: string) => {
      await page.goto(own.url + path)
      await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
      await expect(page.locator('[role="status"] .sr-only', { hasText: 'Завантаження' })).toHaveCount(0)
      const texts = await page.evaluate(() => {
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
        const all: string[] = []
        while (walker.nextNode()) {
          // Commands and output are no text of ours, nor is what claude says.
          if (!walker.currentNode.parentElement?.closest('script, code, pre, .markdown'))
            all.push(walker.currentNode.textContent ?? '')
        }
        return all
      })
      for (const text of texts)
        if (/[A-Za-z]{2,} [A-Za-z]{2,}/.test(text.replace(foreign, ''))) found.push(`${path}: ${text}`)
    }
    const nightly = { prompt: 'Подбай про ніч', agent_slug: 'перекладач', context_id: 'ночі' }
    await own.schedule('розклад', { task: nightly })
    const more = ['/contexts/уроки', '/workers/alpine-1', '/schedules/розклад']
    for (const path of [...pages, ...more].filter((p) => p !== '/docs')) await look(path)
    for (const { id } of [refused, denied, waits])
      for (const tab of ['', '?view=result', '?view=timeline', '?view=records']) await look(`/tasks/${id}${tab}`)
    expect(found).toEqual([])
    // What the worker said is there, and not in English.
    await page.goto(`${own.url}/tasks/${denied.id}`)
    await expect(page.getByText('claude не мав дозволу на WebFetch').first()).toBeVisible()
    await page.goto(`${own.url}/tasks/${refused.id}`)
    await expect(page.getByRole('alert')).toContainText('API моделі відхилив запит (400)')
    await expect(page.getByText('немає.txt: такого файлу немає')).toBeVisible()
  } finally {
    await view.close()
    await own.close()
  }
})
