import { expect, test } from './fixtures'

test('the reference is in the frame, has tasks first, and sends requests', async ({ page, runtime }) => {
  await page.goto(`${runtime.url}/docs`)
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible()
  const reference = page.locator('rapi-doc')
  const paths = reference.locator('.path')
  await expect(paths.first()).toBeVisible()
  expect((await paths.allInnerTexts())[0]).toContain('/api/runtime/llm-tasks')
  await expect(reference.getByText('AUTHENTICATION')).toBeHidden() // the browser is known already
  await paths.filter({ hasText: /^\s*\/api\/runtime\/stats\s*$/ }).click()
  const answered = page.waitForResponse((r) => r.url().endsWith('/api/runtime/stats') && r.request().method() === 'GET')
  await reference.getByRole('button', { name: 'TRY', exact: true }).first().click()
  expect((await answered).status()).toBe(200)
  await expect(reference.getByText('by_status').last()).toBeVisible()
})

test('the policy for content allows no inline script, no eval and no other host', async ({ page, runtime }) => {
  const answer = await page.goto(runtime.url)
  const policy = answer?.headers()['content-security-policy'] ?? ''
  expect(policy).toContain("script-src 'self'")
  expect(policy).not.toMatch(/script-src[^;]*unsafe|unsafe-eval/)
  expect(policy.match(/https?:|\*/)).toBeNull()
})
