import type { Page } from '@playwright/test'
import { expect, test } from './fixtures'

const paths = [
  '/',
  '/tasks',
  '/tasks/new',
  '/contexts',
  '/workers',
  '/leases',
  '/artifacts',
  '/audit',
  '/membridge',
  '/settings',
  '/nothing/here',
]

/** Marks what can be used on the page, and returns the marks. What takes arrow keys counts as one. */
const controls = (page: Page) =>
  page.evaluate(() => {
    const marks: string[] = []
    const all = document.querySelectorAll<HTMLElement>(
      'a[href], button, input, select, textarea, summary, [role="button"], [tabindex]',
    )
    for (const element of all) {
      const shown = element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })
      // A list of tabs is no stop of its own: it hands the focus to the tab that is chosen.
      if (!shown || element.tabIndex < 0 || element.matches(':disabled, [role="tablist"]')) continue
      const mark = `${marks.length}: ${element.tagName} ${(element.getAttribute('aria-label') ?? element.innerText ?? '').slice(0, 40)}`
      element.dataset.walk = mark
      marks.push(mark)
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

for (const width of [1280, 360]) {
  test(`everything is reached with Tab alone, and the focus is seen (${width} px)`, async ({ page, runtime }) => {
    test.setTimeout(300_000)
    await page.setViewportSize({ width, height: 800 })
    const { id } = await runtime.task('Walk over me. scenario: tour', { context_id: 'walked' })
    await runtime.ended(id)
    for (const path of [...paths, `/tasks/${id}`, `/tasks/${id}?view=records`, '/contexts/walked']) {
      await page.goto(runtime.url + path)
      await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
      await expect(page.locator('main [role="status"] .sr-only', { hasText: 'Loading' })).toHaveCount(0)
      await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur())
      const wanted = await controls(page)
      const reached = new Set<string>()
      for (let i = 0; i < wanted.length + 40; i++) {
        await page.keyboard.press('Tab')
        const at = await focus(page)
        if (!at) continue // the browser's own, between the last and the first
        // What came into being after the marks were made (a turn's result, rows of a long list) has none.
        if (reached.size >= wanted.length && (!at.mark || reached.has(at.mark))) break
        if (at.mark) reached.add(at.mark)
        expect(at.outlined, `${path}: the focus is seen on ${at.mark}`).toBe(true)
        expect(at.inSight, `${path}: the focus is in sight on ${at.mark}`).toBe(true)
      }
      // What left the page meanwhile cannot be reached any more.
      const present = await page.evaluate(() =>
        [...document.querySelectorAll<HTMLElement>('[data-walk]')].map((element) => element.dataset.walk),
      )
      expect(
        wanted.filter((mark) => present.includes(mark) && !reached.has(mark)),
        path,
      ).toEqual([])
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
    expect(await dialog.evaluate((d) => d.contains(document.activeElement))).toBe(true)
  }
  await page.keyboard.press('Escape')
  await expect(add).toBeFocused()
})
