import type { Page } from '@playwright/test'
import { expect, test } from './fixtures'
import { Runtime } from './runtime'

const paths = [
  '/',
  '/tasks',
  '/tasks/new',
  '/contexts',
  '/schedules',
  '/schedules/nightly',
  '/workers',
  '/workers/alpine-1',
  '/leases',
  '/artifacts',
  '/audit',
  '/membridge',
  '/settings',
  '/nothing/here',
]

/**
 * Marks what can be used on the page, and returns the marks. A mark stays with its
 * element, and with its row of a long list, which leaves the page and comes back.
 * What takes arrow keys counts as one.
 */
const controls = (page: Page) =>
  page.evaluate(() => {
    const marks: string[] = []
    const count = document.documentElement.dataset
    const all = document.querySelectorAll<HTMLElement>(
      'a[href], button, input, select, textarea, summary, [role="button"], [tabindex]',
    )
    for (const element of all) {
      const shown = element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })
      // A list of tabs is no stop of its own: it hands the focus to the tab that is chosen.
      if (!shown || element.tabIndex < 0 || element.matches(':disabled, [role="tablist"]')) continue
      const what = `${element.tagName} ${(element.getAttribute('aria-label') ?? element.innerText ?? '').slice(0, 40)}`
      const row = element.closest<HTMLElement>('[data-seq], [data-task]')
      if (row) {
        const place = [...row.querySelectorAll(element.tagName)].indexOf(element)
        element.dataset.walk = `${row.dataset.seq ?? row.dataset.task} ${place}: ${what}`
      } else if (!element.dataset.walk) {
        count.marks = String(Number(count.marks ?? 0) + 1)
        element.dataset.walk = `${count.marks}: ${what}`
      }
      marks.push(element.dataset.walk ?? '')
    }
    return marks
  })

/** Where the focus is, and whether a person sees that it is there. */
const focus = (page: Page) =>
  page.evaluate(() => {
    const element = document.activeElement as HTMLElement | null
    if (!element || element === document.body) return null
    const style = getComputedStyle(element)
    const box = element.getBoundingClientRect()
    return {
      mark: element.dataset.walk ?? '',
      outlined:
        (style.outlineStyle !== 'none' && Number.parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== 'none',
      inSight: box.bottom > 0 && box.top < innerHeight && box.width > 0,
    }
  })

/** Presses Tab until everything that is on the page was reached, also what came or went meanwhile. */
async function walk(page: Page, path: string) {
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur())
  const reached = new Set<string>()
  const left = async () => (await controls(page)).filter((mark) => !reached.has(mark))
  for (let round = 0, wanted = await left(); wanted.length > 0 && round < 4; round++, wanted = await left()) {
    // The browser's own stops are between the last and the first.
    for (let i = 0; i < reached.size + wanted.length + 10 && wanted.some((mark) => !reached.has(mark)); i++) {
      await page.keyboard.press('Tab')
      const at = await focus(page)
      if (!at?.mark) continue
      reached.add(at.mark)
      expect(at.outlined, `${path}: the focus is seen on ${at.mark}`).toBe(true)
      expect(at.inSight, `${path}: the focus is in sight on ${at.mark}`).toBe(true)
    }
  }
  expect(await left(), path).toEqual([])
}

for (const width of [1280, 360]) {
  test(`everything is reached with Tab alone, and the focus is seen (${width} px)`, async ({ page }) => {
    // Of its own, so that lists are short and nothing happens in them.
    const own = new Runtime()
    try {
      await own.startMembridge()
      await own.startServer()
      await own.startWorker()
      await page.setViewportSize({ width, height: 800 })
      const { id } = await own.task('Walk over me. scenario: tour', { context_id: 'walked' })
      expect(await own.ended(id)).toBe('completed')
      await own.schedule('nightly')
      for (const path of [...paths, `/tasks/${id}`, `/tasks/${id}?view=records`, '/contexts/walked']) {
        await page.goto(own.url + path)
        await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
        await expect(page.locator('main [role="status"] .sr-only', { hasText: 'Loading' })).toHaveCount(0)
        await walk(page, path)
      }
    } finally {
      await own.close()
    }
  })
}

test('a dialog keeps the focus and gives it back', async ({ page, runtime }) => {
  await page.goto(`${runtime.url}/workers`)
  const add = page.getByRole('button', { name: 'Add a worker' })
  await add.focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog')
  await expect(dialog).toBeVisible()
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press('Tab')
    await expect.poll(() => dialog.evaluate((d) => d.contains(document.activeElement))).toBe(true)
  }
  await page.keyboard.press('Escape')
  await expect(add).toBeFocused()
})
