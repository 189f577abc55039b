import { accessible, expect, test } from './fixtures'
import { Runtime } from './runtime'

test('a schedule is added, run, paused, changed and deleted', async ({ browser }) => {
  const own = new Runtime()
  const context = await browser.newContext({ timezoneId: 'Europe/Kyiv', locale: 'en-GB', reducedMotion: 'reduce' })
  try {
    await own.startServer()
    await own.startWorker()
    const page = await context.newPage()
    await page.goto(`${own.url}/schedules`)
    await expect(page.getByText('No schedules yet')).toBeVisible()
    await page.getByRole('button', { name: 'Add a schedule' }).click()
    const dialog = page.getByRole('dialog')
    await accessible(page)
    await dialog.getByLabel('Name').fill('morning report')
    await dialog.getByLabel('When').selectOption('Monday to Friday')
    await dialog.getByLabel('Time', { exact: true }).fill('07:30')
    await expect(dialog.getByLabel('Time zone')).toHaveValue('Europe/Kyiv')
    await dialog.getByLabel('Prompt').fill('Report what happened')
    await dialog.getByRole('button', { name: 'Add', exact: true }).click()
    await expect(dialog).toBeHidden()
    await expect(
      page.getByRole('row', { name: /morning report.*Monday to Friday at 07:30.*Europe\/Kyiv/ }),
    ).toBeVisible()

    await page.getByRole('link', { name: 'morning report' }).click()
    await expect(page.getByText(/day,? \d.* at 07:30$/)).toHaveCount(5)
    await page.getByRole('button', { name: 'Run now' }).click()
    await expect(page.getByRole('link', { name: 'Completed' })).toBeVisible()
    await page.getByRole('link', { name: 'Completed' }).click()
    await expect(page).toHaveURL(/\/tasks\//)
    await page.goBack()

    await page.getByRole('button', { name: 'Pause' }).click()
    await expect(page.getByText('It is paused, so nothing starts until you resume it.')).toBeVisible()
    await page.getByRole('button', { name: 'Resume' }).click()
    await expect(page.getByText('It is paused')).toBeHidden()

    await page.getByRole('button', { name: 'Actions for morning report' }).click()
    await page.getByRole('menuitem', { name: 'Edit' }).click()
    await expect(dialog.getByLabel('When')).toHaveValue('weekdays')
    await dialog.getByLabel('When').selectOption('At an interval')
    await dialog.getByLabel('Every').fill('2')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByText('Every 2h')).toBeVisible()

    await page.getByRole('button', { name: 'Actions for morning report' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect(page.getByText('No schedules yet')).toBeVisible()
  } finally {
    await context.close()
    await own.close()
  }
})
