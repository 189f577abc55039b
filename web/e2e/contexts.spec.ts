import { expect, test } from './fixtures'

test('a context is named, pinned, and found by both of its names', async ({ page, runtime }) => {
  const id = `letters-${Math.random().toString(36).slice(2)}`
  await runtime.task('Write to the lighthouse', { context_id: id })
  await runtime.task('Something else')
  await page.goto(`${runtime.url}/contexts/${id}`)
  await page.getByRole('button', { name: 'Rename' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('Листи до маяка')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Листи до маяка' })).toBeVisible()
  await page.getByRole('button', { name: 'Pin', exact: true }).click()
  await expect(page.getByRole('button', { name: 'Unpin' })).toBeVisible()

  await page.goto(`${runtime.url}/contexts`)
  const row = page.getByRole('row', { name: /Листи до маяка/ })
  await expect(row).toHaveCount(1)
  await expect(row).toContainText('Write to the lighthouse')
  await expect(page.getByRole('row').nth(1)).toContainText('Pinned')
  for (const words of ['маяк', id.slice(0, 12).toUpperCase()]) {
    await page.getByLabel('Search names').fill(words)
    await expect(page.getByRole('row')).toHaveCount(2)
    await expect(row).toBeVisible()
  }
  await page.getByLabel('Search names').fill('of nobody')
  await expect(page.getByText('No context of this name')).toBeVisible()

  await page.keyboard.press('Control+k')
  await page.getByRole('dialog').getByRole('combobox').fill('до маяка')
  await page
    .getByRole('dialog')
    .getByRole('option', { name: /Листи до маяка/ })
    .click()
  await expect(page).toHaveURL(new RegExp(`/contexts/${id}$`))
  await page.getByRole('button', { name: 'Unpin' }).click()
  await expect(page.getByRole('button', { name: 'Pin', exact: true })).toBeVisible()
})
