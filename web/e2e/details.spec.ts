import { readFileSync } from 'node:fs'
import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

/** A server whose worker is this test. */
async function answered(own: Runtime, prompt: string, output: string, context: string) {
  const { id } = await own.task(prompt, { context_id: context })
  const { lease } = await own.api<{ lease: { id: string } }>(`/llm-tasks/${id}/lease`, { worker_id: 'a-hand' })
  await own.api(`/llm-tasks/${id}/complete`, { lease_id: lease.id, status: 'success', output })
  return id
}

test('what is found, what starts later and what a task left are told so that they can be told apart', async ({
  page,
}) => {
  const own = new Runtime()
  try {
    await own.startServer()
    await own.api('/workers', { name: 'a-hand' })
    const id = await answered(own, 'Count the walruses in the zoo', 'There are seven, and a lynx.', 'zoo-visit')
    await own.task('Feed them later', { run_at: Date.now() + 2.5 * 3_600_000 })

    await test.step('the list says when a task starts', async () => {
      await page.goto(`${own.url}/tasks`)
      await expect(page.getByText(/^starts in 2/)).toBeVisible()
    })
    await test.step('the palette names the task in whose result it found the words', async () => {
      // The index follows about a second later: the search is made again until it has.
      await expect(async () => {
        await page.goto(`${own.url}/tasks?q=lynx`)
        await expect(page.locator('mark', { hasText: 'lynx' })).toBeVisible({ timeout: 2000 })
      }).toPass({ timeout: 60_000 })
      await page.keyboard.press('Control+k')
      await page.getByRole('dialog').getByRole('combobox').fill('lynx')
      const found = page.getByRole('option', { name: /Count the walruses in the zoo/ })
      await expect(found.locator('mark', { hasText: 'lynx' })).toBeVisible()
      await accessible(page)
    })
    await test.step('a context is copied where its name is', async () => {
      await page.goto(`${own.url}/contexts/zoo-visit`)
      const name = page.getByRole('heading', { level: 1, name: 'zoo-visit', exact: true })
      await expect(name).toBeVisible()
      await expect(name.locator('..').getByRole('button', { name: 'Copy the context’s name' })).toBeVisible()
    })
    await test.step('the events of a run are saved', async () => {
      await page.goto(`${own.url}/tasks/${id}`)
      const saving = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Save the run’s events' }).click()
      const file = await saving
      expect(file.suggestedFilename()).toBe(`run-${id.slice(-8)}.jsonl`)
      const lines = readFileSync(await file.path(), 'utf8')
        .trimEnd()
        .split('\n')
      expect((JSON.parse(lines.at(-1) ?? '') as { type: string }).type).toBe('completed')
    })
    await test.step('nothing of its records is cut on a phone', async () => {
      await page.setViewportSize({ width: 360, height: 740 })
      await page.goto(`${own.url}/tasks/${id}?view=records`)
      await expect(
        page.getByText('Leased to a-hand for 300 s (attempt 1 of 3)').filter({ visible: true }),
      ).toBeVisible()
      const wider = () =>
        page
          .locator('main [role="group"], main [role="region"], main .overflow-x-auto')
          .evaluateAll((boxes) => boxes.filter((box) => box.scrollWidth > box.clientWidth).length)
      await expect.poll(wider).toBe(0)
    })
  } finally {
    await own.close()
  }
})

test('a sign-in page that cannot ask the server says so', async ({ page, runtime }) => {
  await page.route('**/api/runtime/session', (route) =>
    route.fulfill({
      status: 500,
      json: { error: 'The request could not be completed', code: 'internal', request_id: 'd3adb33f' },
    }),
  )
  await page.goto(`${runtime.url}/sign-in`)
  await expect(page.getByRole('alert')).toContainText('The request could not be completed')
  await expect(page.getByText('This server asks for a key.')).toBeHidden()
  await page.unrouteAll({ behavior: 'wait' })
  await page.getByRole('button', { name: 'Try again' }).click()
  await expect(page.getByText('This server needs no key')).toBeVisible()
})

test('a key that only reads is not offered what it may not do', async ({ page }) => {
  const own = new Runtime()
  const admin = 'an-admin-key-of-the-tests'
  const ask = async (path: string, body: unknown) =>
    (await (
      await fetch(`${own.url}/api/runtime${path}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Runtime-API-Key': admin },
        body: JSON.stringify(body),
      })
    ).json()) as { id: string; key: string }
  try {
    await own.startServer(admin)
    const task = { prompt: 'Only looked at', agent_slug: 'a', context_id: 'c' }
    const { id } = await ask('/llm-tasks', task)
    const signIn = async (role: string) => {
      const { key } = await ask('/keys', { name: role, role })
      await page.request.post(`${own.url}/api/runtime/session`, { data: { key } })
      await page.goto(`${own.url}/tasks/${id}`)
      await expect(page.getByRole('heading', { level: 1, name: 'Only looked at' })).toBeVisible()
    }
    const cancel = page.getByRole('button', { name: 'Cancel the task' })
    const create = page.getByRole('link', { name: 'New task' })
    await signIn('client')
    await expect(cancel).toBeVisible()
    await expect(create).toBeVisible()
    await signIn('viewer')
    await expect(cancel).toBeHidden()
    await expect(create).toBeHidden()
    await page.goto(`${own.url}/settings`)
    await expect(page.getByText('Signed in as viewer (Viewer)')).toBeVisible()
    await expect(page.getByRole('alert')).toHaveCount(0)
    await page.goto(`${own.url}/tasks/new`)
    await expect(page.getByText('Your key only reads.')).toBeVisible()
    await expect(page.getByRole('button', { name: 'Create the task' })).toBeDisabled()
    await accessible(page)
  } finally {
    await own.close()
  }
})
