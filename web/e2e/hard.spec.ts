import type { Page } from '@playwright/test'
import { expect, test } from './fixtures'
import { Runtime } from './runtime'

/** Milliseconds that a frame may take: on a quiet machine, and on one that does other work at the same time. */
const longestFrame = process.env.QUIET_MACHINE ? 500 : 5000

/** Scrolls the page from its top, a screen a frame, and measures the frames in milliseconds. */
const scrolledFrames = (page: Page) =>
  page.evaluate(async () => {
    scrollTo(0, 0)
    const times: number[] = []
    let rows = Number.POSITIVE_INFINITY
    for (let i = 0; i < 90; i++) {
      const before = performance.now()
      scrollBy(0, 700)
      await new Promise(requestAnimationFrame)
      await new Promise(requestAnimationFrame)
      times.push((performance.now() - before) / 2)
      const inSight = [...document.querySelectorAll('[data-seq], [data-task]')].filter((row) => {
        const box = row.getBoundingClientRect()
        return box.bottom > 0 && box.top < innerHeight
      })
      rows = Math.min(rows, inSight.length)
    }
    times.sort((a, b) => a - b)
    return { median: Math.round(times[45] ?? 0), longest: Math.round(times.at(-1) ?? 0), rows }
  })

/** Scrolls up to five times: a machine that does other work may be slow once, not every time. */
async function scrolls(page: Page, what: string, least: (frames: { median: number; rows: number }) => void) {
  await expect(async () => {
    const frames = await scrolledFrames(page)
    console.log(`${what}: frames of ${frames.median} ms (median), ${frames.longest} ms (longest)`)
    expect(frames.median, 'milliseconds a frame').toBeLessThan(longestFrame)
    least(frames)
  }).toPass({ intervals: [0], timeout: 120_000 })
}

test('an empty system says what to do next, and follows the first task', async ({ page }) => {
  const fresh = new Runtime()
  try {
    await fresh.startServer()
    await page.goto(fresh.url)
    await expect(page.getByText('First steps')).toBeVisible()
    await expect(page.getByText(`bloom worker --runtime-url ${fresh.url}`)).toBeVisible()
    await fresh.task('The first one')
    await expect(page.getByText('There is no worker', { exact: true })).toBeVisible()
  } finally {
    await fresh.close()
  }
})

test('the server restarts while a stream is open: no gap, no repeat', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.startWorker()
    const { id } = await own.task('Count. scenario: slow')
    await page.goto(`${own.url}/tasks/${id}`)
    await expect(page.getByText('Step B of the count.')).toBeVisible()
    await own.stopServer()
    await expect(page.getByText('Reconnecting…').first()).toBeVisible()
    await own.startServer()
    await expect(page.getByText('Live', { exact: true })).toBeVisible()
    expect(await own.ended(id)).toBe('completed')
    const run = page.getByTestId('conversation')
    await expect(async () => {
      const address = `${own.url}/api/runtime/llm-tasks/${id}/events`
      const lines = await (await fetch(address, { headers: { Accept: 'application/x-ndjson' } })).text()
      const count = String(lines.trim().split('\n').length)
      await expect(run).toHaveAttribute('data-events', count, { timeout: 1000 })
      await expect(run).toHaveAttribute('data-last', count, { timeout: 1000 })
    }).toPass({ timeout: 60_000 })
  } finally {
    await own.close()
  }
})

test('a worker dies: the overview says so, and the page of its task', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.startWorker('left', ['--lease-ttl', '600s'])
    const { id } = await own.task('scenario: hold')
    await page.goto(own.url)
    await expect(page.getByText('Online', { exact: true })).toBeVisible()
    const taskPage = await page.context().newPage()
    await taskPage.goto(`${own.url}/tasks/${id}`)
    await expect(taskPage.getByText('Session started')).toBeVisible()
    await own.killWorker('left')
    // A worker is offline after 60 s of silence. The server says so first; the page follows by itself at once.
    const status = async () => (await own.api<{ status: string }[]>('/workers'))[0]?.status
    await expect.poll(status, { timeout: 200_000, intervals: [200] }).toBe('offline')
    const known = Date.now()
    await expect(page.getByText('Every worker is offline')).toBeVisible()
    await expect(page.getByText('Offline', { exact: true }).first()).toBeVisible()
    await expect(taskPage.getByText(/^The worker left is offline; its last heartbeat was /)).toBeVisible()
    await expect(taskPage.getByText(/^If it does not return, its lease expires in /)).toBeVisible()
    const { last_heartbeat } = (await own.api<{ last_heartbeat: number }[]>('/workers'))[0] ?? { last_heartbeat: 0 }
    console.log(
      `offline ${known - last_heartbeat} ms after the last heartbeat, on the page ${Date.now() - known} ms later`,
    )
  } finally {
    await own.close()
  }
})

test('hostile output runs nothing', async ({ page, runtime }) => {
  const prompt =
    '<script>window.__ran=8</script><img src=x onerror="window.__ran=9"> [x](javascript:window.__ran=10) scenario: hostile'
  const { id } = await runtime.task(prompt)
  expect(await runtime.ended(id)).toBe('completed')
  await page.goto(`${runtime.url}/tasks/${id}`)
  await expect(page.getByText('onload=').first()).toBeVisible()
  await page.getByRole('tab', { name: 'Result' }).click()
  await expect(page.getByText('a link').first()).toBeVisible()
  await page.getByText('a link').first().click()
  expect(await page.evaluate(() => (window as unknown as { __ran?: number }).__ran)).toBeUndefined()
  await expect(
    page.locator('main :is(script, iframe, img, svg[onload], a[href^="javascript"], a[href^="data"])'),
  ).toHaveCount(0)
})

test('a result of 2 MB is shown without freezing', async ({ page, runtime }) => {
  const { id } = await runtime.task('scenario: big')
  expect(await runtime.ended(id)).toBe('completed')
  await page.goto(`${runtime.url}/tasks/${id}`)
  await page.getByRole('tab', { name: 'Result' }).click()
  await expect(page.getByText('A line of output that says nothing').first()).toBeVisible()
  const box = page.locator('main [role="group"][tabindex]').last()
  await expect(async () => {
    const frames = await box.evaluate(async (element) => {
      const times: number[] = []
      element.scrollTo(0, 0)
      for (let i = 0; i < 60; i++) {
        const before = performance.now()
        element.scrollBy(0, 900)
        await new Promise(requestAnimationFrame)
        times.push(performance.now() - before)
      }
      times.sort((a, b) => a - b)
      return { median: Math.round(times[30] ?? 0), longest: Math.round(times.at(-1) ?? 0), scrolled: element.scrollTop }
    })
    console.log(`2 MB: frames of ${frames.median} ms (median), ${frames.longest} ms (longest)`)
    expect(frames.scrolled, 'it is scrolled').toBeGreaterThan(10_000)
    expect(frames.median, 'milliseconds a frame').toBeLessThan(longestFrame)
  }).toPass({ intervals: [0], timeout: 120_000 })
})

test('ten thousand tasks scroll', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.fill(10_000)
    await own.startServer()
    await page.goto(`${own.url}/tasks`)
    await expect(page.locator('[data-task]').first()).toBeVisible()
    // Scrolls until there is enough: each page of the list comes when its end is near.
    const height = () => page.evaluate(() => document.documentElement.scrollHeight)
    while ((await height()) <= 15_000) {
      const before = await height()
      await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight))
      await expect.poll(height).toBeGreaterThan(before)
    }
    const rows = page.locator('[data-task]')
    await expect.poll(() => rows.count()).toBeLessThan(100)
    await scrolls(page, '10,000 tasks', (frames) => expect(frames.rows).toBeGreaterThan(0))
    // What is new waits above; the list does not jump.
    await page.evaluate(() => scrollTo(0, 6000))
    const place = () =>
      page.evaluate(() => {
        const inSight = [...document.querySelectorAll<HTMLElement>('[data-task]')].find(
          (row) => row.getBoundingClientRect().top > 200,
        )
        return scrollY > 5000 && inSight
          ? `${inSight.dataset.task} ${Math.round(inSight.getBoundingClientRect().top)}`
          : ''
      })
    await expect.poll(place).not.toBe('')
    const before = await place()
    const { id } = await own.task('One more')
    const fresh = page.getByRole('button', { name: '1 new task' })
    await expect(fresh).toBeVisible()
    await expect.poll(place).toBe(before)
    // It is counted once, whatever becomes of it.
    await own.api(`/llm-tasks/${id}/cancel`, {})
    await own.task('The last one')
    await expect(page.getByRole('button', { name: '2 new tasks' })).toBeVisible()
    await page.getByRole('button', { name: '2 new tasks' }).click()
    await expect(page.getByText('One more')).toBeVisible()
    await expect(page.getByText('The last one')).toBeVisible()
  } finally {
    await own.close()
  }
})

test('a drained worker shows where it was drained', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.api('/workers', { name: 'resting', draining: true })
    await own.task('Waits for a worker')
    await page.goto(own.url)
    await expect(page.getByText('Undrain one: the Workers page says where each was drained.')).toBeVisible()
    await page.goto(`${own.url}/workers`)
    const there = page.getByText('At membridge. Undrain it there: POST /agents/resting/drain with {"drain": false}')
    const here = page.getByText('Here. Undrain it in the menu above.')
    await expect(there).toBeVisible()
    await expect(here).toBeHidden()
    const choose = async (action: string) => {
      await page.getByRole('button', { name: 'Actions for resting' }).click()
      await page.getByRole('menuitem', { name: action }).click()
    }
    await choose('Drain: take no more tasks')
    await expect(here).toBeVisible()
    await choose('Undrain: take tasks again')
    await expect(page.getByText('Undrained here. Membridge still drains it')).toBeVisible()
    await expect(here).toBeHidden()
    await expect(there).toBeVisible()
  } finally {
    await own.close()
  }
})

test('a run of 20,000 events opens at once and scrolls', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.api('/workers', { name: 'writer' })
    const { id } = await own.task('A long run')
    const { lease } = await own.api<{ lease: { id: string } }>(`/llm-tasks/${id}/lease`, { worker_id: 'writer' })
    const lines = Array.from({ length: 20_000 }, (_, i) =>
      JSON.stringify({ seq: i + 1, type: 'text', at: Date.now(), data: { text: `Line ${i + 1} of a *long* run` } }),
    )
    const posted = await fetch(`${own.url}/api/runtime/llm-tasks/${id}/events?lease_id=${lease.id}`, {
      method: 'POST',
      body: lines.join('\n'),
    })
    expect(posted.ok).toBe(true)
    await page.goto(`${own.url}/tasks/${id}`)
    await expect(page.getByText('Line 1 of a long run')).toBeVisible()
    await expect(page.getByTestId('conversation')).toHaveAttribute('data-events', '20002')
    await expect.poll(() => page.locator('[data-seq]').count()).toBeLessThan(80)
    await scrolls(page, '20,000 events', (frames) =>
      expect(frames.rows, 'rows are there while it scrolls').toBeGreaterThan(0),
    )
    const toEnd = page.getByRole('button', { name: 'To the end' })
    await expect(async () => {
      // Rows that are measured on the way make the conversation longer.
      if (await toEnd.isVisible()) await toEnd.click({ timeout: 1000 })
      await expect(page.getByText('Line 20000 of a long run')).toBeInViewport({ timeout: 1000 })
      await expect(toEnd).toBeHidden({ timeout: 1000 })
    }).toPass({ timeout: 60_000 })
    // At the end it follows what comes.
    const more = JSON.stringify({ seq: 20_001, type: 'text', at: Date.now(), data: { text: 'And one more' } })
    await fetch(`${own.url}/api/runtime/llm-tasks/${id}/events?lease_id=${lease.id}`, { method: 'POST', body: more })
    await expect(page.getByText('And one more')).toBeInViewport()
  } finally {
    await own.close()
  }
})
