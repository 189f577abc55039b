import { readFile } from 'node:fs/promises'
import type { Page } from '@playwright/test'
import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

const send = (page: Page, how: 'paste' | 'drop', names: string[], text: string) =>
  page.getByRole('textbox', { name: 'Prompt', exact: true }).evaluate(
    (box, { how, names, text }) => {
      const data = new DataTransfer()
      for (const name of names) data.items.add(new File([text], name))
      const about = { bubbles: true, cancelable: true }
      box.dispatchEvent(
        how === 'paste'
          ? new ClipboardEvent('paste', { ...about, clipboardData: data })
          : new DragEvent('drop', { ...about, dataTransfer: data }),
      )
    },
    { how, names, text },
  )

test('files are chosen, pasted and dropped, and the page of the task has them', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer('', ['--attachment-limit-mib', '1'])
    await page.goto(own.url)
    const prompt = page.getByRole('textbox', { name: 'Prompt', exact: true })
    await prompt.fill('Which month was best?')
    const choosing = page.waitForEvent('filechooser')
    await page.getByRole('button', { name: 'Attach files' }).click()
    const sales = Buffer.from('month,sum\nmay,7\n')
    await (await choosing).setFiles({ name: 'продажі.csv', mimeType: 'text/csv', buffer: sales })
    await send(page, 'paste', ['image.png'], 'one')
    await send(page, 'paste', ['image.png'], 'other')
    await send(page, 'drop', ['.env'], 'unwanted')
    await send(page, 'drop', ['large'], 'x'.repeat(1 << 20))
    await expect(page.getByRole('alert')).toContainText('at most 1 MiB together')
    await page.getByRole('button', { name: 'Remove _.env' }).click()
    await expect(page.getByRole('alert')).toHaveCount(0)
    const files = page.getByRole('list', { name: 'Attached files' }).getByRole('listitem')
    await expect(files).toContainText(['продажі.csv', 'image.png', 'image-2.png'])
    await accessible(page)
    // The whole form goes on with them.
    await page.getByRole('button', { name: /A new conversation/ }).click()
    await page.getByRole('link', { name: 'More options' }).click()
    await expect(page).toHaveURL(/tasks\/new/)
    await expect(files).toHaveCount(3)
    await accessible(page)
    await page.getByRole('button', { name: 'Create the task' }).click()
    await expect(page.getByRole('heading', { level: 1, name: 'Which month was best?' })).toBeVisible()
    await expect(files).toHaveCount(3)
    await accessible(page)
    for (const [name, content] of [
      ['продажі.csv', sales],
      ['image-2.png', Buffer.from('other')],
    ] as const) {
      const downloading = page.waitForEvent('download')
      await page.getByRole('button', { name: `Download ${name}` }).click()
      const download = await downloading
      expect(download.suggestedFilename()).toBe(name)
      expect(await readFile(await download.path())).toEqual(content)
    }
  } finally {
    await own.close()
  }
})

test('a server that accepts no files offers to attach none', async ({ page }) => {
  const own = new Runtime()
  try {
    await own.startServer('', ['--attachment-limit-mib', '0'])
    await page.goto(`${own.url}/tasks/new`)
    await expect(page.getByRole('button', { name: 'Create the task' })).toBeVisible()
    await expect(page.getByRole('button', { name: 'Attach files' })).toHaveCount(0)
  } finally {
    await own.close()
  }
})
