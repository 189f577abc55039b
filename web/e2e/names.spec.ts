import { createHash } from 'node:crypto'
import type { Page } from '@playwright/test'
import { expect, test } from './fixtures'
import { Runtime } from './runtime'

/** Texts that leave the card they are in, and so are cut off. Those that end in an ellipsis or scroll may be long. */
const cutOff = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('main *')]
      .filter((e) => {
        const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent?.trim())
        if (!own || e.closest('.truncate, .line-clamp-2, pre, fieldset, [role="group"], svg, .sr-only')) return false
        return e.getBoundingClientRect().right > innerWidth + 1
      })
      .map((e) => e.outerHTML.slice(0, 200)),
  )

test('names that are hostile and long stay text, and widen no page', async ({ page }) => {
  const own = new Runtime()
  const hostile = (of: string, length: number) => `"><img src=x onerror="window.__ran='${of}'">`.padEnd(length, 'w')
  try {
    await own.startServer()
    const worker = hostile('worker', 100)
    await own.api('/workers', {
      name: worker,
      capabilities: { claude_cli: true, max_concurrency: 2, labels: [hostile('label', 60)] },
      agent_version: hostile('version', 90),
      os_info: hostile('os', 90),
      ip_addrs: [hostile('address', 60)],
    })
    const names = { agent_slug: hostile('agent', 200), context_id: hostile('context', 200) }
    const { id } = await own.task(hostile('prompt', 900), { ...names, labels: [hostile('label', 60)] })
    const { lease } = await own.api<{ lease: { id: string } }>(`/llm-tasks/${id}/lease`, {})
    await own.api(`/llm-tasks/${id}/heartbeat`, { lease_id: lease.id })
    const body = '<script>window.__ran="body"</script>'
    const file = new URLSearchParams({
      lease_id: lease.id,
      path: `out/${hostile('file', 90)}.html`,
      sha256: createHash('sha256').update(body).digest('hex'),
    })
    const put = await fetch(`${own.url}/api/runtime/llm-tasks/${id}/artifacts?${file}`, { method: 'PUT', body })
    expect(put.status, await put.text()).toBeLessThan(300)
    const ask = {
      kind: 'tool',
      tool: hostile('tool', 200),
      tool_use_id: 'call',
      input: { [hostile('field', 60)]: hostile('value', 600) },
    }
    await own.api(`/llm-tasks/${id}/ask`, { lease_id: lease.id, ...ask })
    await own.api(`/llm-tasks/${id}/complete`, {
      lease_id: lease.id,
      status: 'error',
      error_message: hostile('error', 900),
      error_class: hostile('class', 60),
      artifact_type: hostile('type', 90),
      output: hostile('output', 900),
      metrics: { duration_ms: 1, model: hostile('model', 90) },
    })
    await own.task(hostile('waiting', 300), { ...names, labels: [hostile('nobody', 60)] })
    const context = `/contexts/${encodeURIComponent(names.context_id)}`
    const views = ['', '?view=result', '?view=timeline', '?view=records'].map((view) => `/tasks/${id}${view}`)
    await own.schedule(hostile('schedule', 64).slice(0, 64), { task: { ...names, prompt: hostile('prompt', 300) } })
    const named = [
      `/workers/${encodeURIComponent(worker)}`,
      `/schedules/${encodeURIComponent(hostile('schedule', 64).slice(0, 64))}`,
      '/schedules',
      '/approvals?status=cancelled',
    ]
    const lists = [
      '/',
      '/tasks',
      '/approvals',
      '/contexts',
      '/workers',
      '/leases',
      '/artifacts',
      '/audit',
      `/tasks/new?from=${id}`,
    ]
    for (const width of [360, 1280]) {
      await page.setViewportSize({ width, height: 800 })
      for (const path of [...lists, ...views, ...named, context]) {
        await page.goto(own.url + path)
        await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
        await expect(page.locator('[role="status"] .sr-only', { hasText: 'Loading' })).toHaveCount(0)
        const wide = () => page.evaluate(() => document.documentElement.scrollWidth)
        await expect.poll(wide, { message: path, timeout: 10_000 }).toBeLessThanOrEqual(width)
        expect.soft(await cutOff(page), path).toEqual([])
        await expect(page.locator('main img')).toHaveCount(0)
      }
    }
    expect(await page.evaluate(() => (window as unknown as { __ran?: string }).__ran)).toBeUndefined()
  } finally {
    await own.close()
  }
})
