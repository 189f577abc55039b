import { readFileSync } from 'node:fs'
import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

test('an audit entry shows its hash and the state it left; the lists are saved as files', async ({ page, runtime }) => {
  const { id } = await runtime.task('Leave a trace')
  await runtime.ended(id)
  await page.goto(`${runtime.url}/audit`)
  await page.getByLabel('Id of a task, worker …').fill(id)
  const completed = page
    .getByRole('row')
    .filter({ hasText: id.slice(-8) })
    .getByRole('button', { name: 'Task ended' })
  await completed.click()
  const entry = page.getByRole('dialog', { name: 'Task ended' })
  await expect(entry).toContainText('"completed"')
  // It is chained soon after it was written; the dialog shows the list's row, which is read again then.
  await page.keyboard.press('Escape')
  await expect(async () => {
    await page.reload()
    await page.getByLabel('Id of a task, worker …').fill(id)
    await completed.click({ timeout: 5000 })
    await expect(entry.getByText(/^[0-9a-f]{64}$/)).toBeVisible({ timeout: 1000 })
  }).toPass({ timeout: 60_000 })
  await accessible(page)
  await page.keyboard.press('Escape')
  const saved = async (button: string) => {
    const saving = page.waitForEvent('download')
    await page.getByRole('button', { name: button }).click()
    const file = await saving
    return { name: file.suggestedFilename(), text: readFileSync(await file.path(), 'utf8') }
  }
  const csv = await saved('Save as CSV')
  expect(csv.name).toBe('audit.csv')
  expect(csv.text.split('\r\n')[0]).toBe('timestamp,action,entity_type,entity_id,actor,detail,seq,hash,key_id,address')
  expect(csv.text).toContain(`"task_created","llm_task","${id}"`)
  for (const [path, name] of [
    ['/audit', 'audit.jsonl'],
    ['/leases', 'leases.jsonl'],
    ['/artifacts', 'artifacts.jsonl'],
  ]) {
    await page.goto(runtime.url + path)
    if (path === '/artifacts') await page.getByLabel('Type').selectOption('Everything')
    const file = await saved('Save as JSONL')
    expect(file.name).toBe(name)
    const lines = file.text.trimEnd().split('\n')
    expect(
      lines.some((line) => Object.values(JSON.parse(line)).includes(id)),
      path,
    ).toBe(true)
  }
})

test('files are found by name, looked at without anything in them running, and saved together', async ({
  browser,
  runtime,
}) => {
  const { id } = await runtime.task('Write a report. scenario: files', { policy: { artifacts: ['out/**'] } })
  expect(await runtime.ended(id)).toBe('completed')
  // What the page of the report wants is refused in its frame: those complaints are no failure of ours.
  const context = await browser.newContext()
  const refused: (string | undefined)[] = []
  context.on('requestfailed', (request) => {
    if (new URL(request.url()).hostname !== '127.0.0.1') refused.push(request.failure()?.errorText)
  })
  const page = await context.newPage()
  await page.goto(`${runtime.url}/artifacts`)
  await page.getByLabel('Id of a task').fill(id)
  const rows = page.locator('tbody tr')
  await expect(rows).toHaveCount(4)
  await expect(rows.first()).toContainText('Write a report')
  const dialog = page.getByRole('dialog')
  const open = async (name: string) => {
    await page.getByRole('button', { name }).click()
    await expect(dialog.getByRole('link', { name: 'Write a report' })).toBeVisible()
  }
  await open('out/report.md')
  await expect(dialog.locator('.markdown strong')).toHaveText('empty')
  await page.keyboard.press('Escape')
  await open('out/waits.csv')
  await expect(dialog.getByRole('cell', { name: '1,5 s' })).toBeVisible()
  await accessible(page) // not below, where axe would wait for the frame that runs no script
  await page.keyboard.press('Escape')
  await open('out/chart.svg')
  await expect.poll(() => dialog.locator('img').evaluate((img) => (img as HTMLImageElement).naturalWidth)).toBe(480)
  await page.keyboard.press('Escape')
  await open('out/page.html')
  const heading = page.frameLocator('iframe').getByRole('heading')
  await expect(heading).toHaveText('Waits')
  await expect(heading).toHaveCSS('color', 'rgb(0, 128, 0)') // its own style
  expect(await page.title()).toBe('Artifacts · BLOOM')
  await page.keyboard.press('Escape')
  expect(refused).toEqual(['csp'])
  const saving = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download all' }).click()
  const saved = await saving
  expect(saved.suggestedFilename()).toBe('artifacts.zip')
  const zip = readFileSync(await saved.path(), 'latin1')
  for (const name of ['out/report.md', 'out/waits.csv', 'out/chart.svg', 'out/page.html']) expect(zip).toContain(name)
  await page.goto(`${runtime.url}/tasks/${id}?view=records`)
  await expect(page.getByRole('link', { name: 'Download all' })).toHaveAttribute('href', new RegExp(`task_id=${id}$`))
  await context.close()
})

test('leases are found by task, worker and status', async ({ page, runtime }) => {
  const { id } = await runtime.task('Be leased')
  await runtime.ended(id)
  await page.goto(`${runtime.url}/leases`)
  const rows = page.getByRole('row')
  const mine = rows.filter({ hasText: id.slice(-8) })
  await expect(mine).toHaveCount(1)
  await page.getByLabel('Id of a task').fill(id.slice(0, 8))
  await expect(page.getByRole('status').getByText('Enter the whole id of a task.')).toBeVisible()
  await page.getByLabel('Id of a task').fill(id)
  await expect(rows).toHaveCount(2)
  await expect(mine).toHaveCount(1)
  const [lease] = await runtime.api<{ worker_id: string }[]>(`/leases?task_id=${id}`)
  await page.getByLabel('Worker').selectOption(lease?.worker_id ?? '')
  await page.getByLabel('Status').selectOption('Released')
  await expect(mine).toHaveCount(1)
  await accessible(page)
  await page.getByLabel('Status').selectOption('Active')
  await expect(page.getByText('Nothing matches these filters.')).toBeVisible()
})

test('the kept events of a run are looked at without saving them', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer('', ['--run-transcripts', 'always'])
    await own.startWorker()
    const { id } = await own.task('Be kept')
    expect(await own.ended(id)).toBe('completed')
    const kept = async () =>
      (await own.api<{ type: string }[]>(`/artifacts?task_id=${id}`)).some((a) => a.type === 'transcript')
    await expect.poll(kept, { timeout: 90_000 }).toBe(true)
    await page.goto(`${own.url}/tasks/${id}?view=records`)
    await page.getByRole('button', { name: /^transcript\// }).click()
    await expect(page.getByRole('dialog').getByText('"type":"completed"')).toBeVisible()
    await accessible(page)
  } finally {
    await own.close()
  }
})

test('all that a filter matches is cancelled and requeued, also what is not loaded', async ({ page, runtime }) => {
  const context = `matching-${Math.random()}`
  const count = 130 // more than a page of the list
  await Promise.all(
    Array.from({ length: count }, (_, i) =>
      runtime.task(`Number ${i}`, { labels: ['unobtainium'], context_id: context }),
    ),
  )
  const stay = await runtime.task('Of another context', { labels: ['unobtainium'] })
  await page.goto(`${runtime.url}/tasks?context_id=${context}`)
  await expect(page.locator('[data-task]').first()).toBeVisible()
  const all = async (item: string) => {
    await page.getByRole('button', { name: 'All matching' }).click()
    await page.getByRole('menuitem', { name: item }).click()
    return page.getByRole('dialog')
  }
  let dialog = await all('Cancel all matching…')
  await expect(dialog).toContainText(`Cancel ${count} matching tasks?`)
  await expect(dialog).toContainText(context)
  await accessible(page)
  await dialog.getByRole('button', { name: 'Cancel the tasks' }).click()
  await expect(page.getByText(`${count} tasks cancelled`)).toBeVisible()
  await expect(page.locator('[data-task]').getByText('Queued')).toHaveCount(0)
  await expect(page.locator('[data-task]').getByText('Cancelled').filter({ visible: true }).first()).toBeVisible()
  const ended = await runtime.api<unknown[]>(`/llm-tasks?context_id=${context}&status=cancelled&limit=1000`)
  expect(ended).toHaveLength(count)
  expect((await runtime.api<{ status: string }>(`/llm-tasks/${stay.id}`)).status).toBe('queued')
  dialog = await all('Requeue all matching…')
  await dialog.getByRole('button', { name: 'Requeue the tasks' }).click()
  await expect(page.getByText(`${count} tasks back in the queue`)).toBeVisible()
  // Nothing is left to requeue: it cannot be asked for.
  dialog = await all('Requeue all matching…')
  await expect(dialog).toContainText('Requeue 0 matching tasks?')
  await expect(dialog.getByRole('button', { name: 'Requeue the tasks' })).toBeDisabled()
  await dialog.getByRole('button', { name: 'Go back' }).click()
  dialog = await all('Cancel all matching…')
  await dialog.getByRole('button', { name: 'Cancel the tasks' }).click()
  await expect(page.getByText(`${count} tasks cancelled`).first()).toBeVisible()
  await runtime.api(`/llm-tasks/${stay.id}/cancel`, {})
})
