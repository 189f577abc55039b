import { expect, test } from './fixtures'

test('the reference is in the frame, has tasks first, and sends requests', async ({ page, runtime }) => {
  await page.goto(`${runtime.url}/docs`)
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible()
  const reference = page.locator('rapi-doc')
  const paths = reference.locator('.path')
  await expect(paths.first()).toBeVisible()
  await expect(paths.first()).toContainText('/api/runtime/llm-tasks')
  await expect(reference.getByText('AUTHENTICATION')).toBeHidden() // the browser is known already
  await paths.filter({ hasText: /^\s*\/api\/runtime\/stats\s*$/ }).click()
  const answered = page.waitForResponse((r) => r.url().endsWith('/api/runtime/stats') && r.request().method() === 'GET')
  await reference.getByRole('button', { name: 'TRY', exact: true }).first().click()
  expect((await answered).status()).toBe(200)
  await expect(reference.getByText('by_status').last()).toBeVisible()
})

test('the policy for content allows nothing inline, no eval and no other host', async ({ page, runtime }) => {
  const answer = await page.goto(runtime.url)
  const policy = answer?.headers()['content-security-policy'] ?? ''
  expect(policy).toContain("script-src 'self'")
  expect(policy).toContain("style-src 'self';")
  expect(policy).not.toContain('unsafe')
  expect(policy.match(/https?:|\*/)).toBeNull()
  // The reference alone writes styles into its page; it has one of its own, also when it is reached by a link.
  const reference = page.waitForResponse((r) => r.url() === `${runtime.url}/docs`)
  await page.getByRole('navigation').getByText('Advanced').click()
  await page.getByRole('link', { name: 'API reference' }).click()
  const its = (await reference).headers()['content-security-policy'] ?? ''
  expect(its.replace(" 'unsafe-inline'", '')).toBe(policy)
  await expect(page.locator('rapi-doc .path').first()).toBeVisible()
  const back = page.waitForResponse((r) => r.url() === `${runtime.url}/leases`)
  await page.getByRole('link', { name: 'Leases' }).click()
  expect((await back).headers()['content-security-policy']).toBe(policy)
  await expect(page.getByRole('heading', { level: 1, name: 'Leases' })).toBeVisible()
})
