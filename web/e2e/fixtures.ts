import { AxeBuilder } from '@axe-core/playwright'
import { type BrowserContext, test as base, expect, type Page } from '@playwright/test'
import { Runtime } from './runtime'

interface Shared {
  /** A runtime with one worker, for all tests of a process. */
  runtime: Runtime
}

export const test = base.extend<{ context: BrowserContext }, Shared>({
  runtime: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names out of the pattern
    async ({}, use) => {
      const runtime = new Runtime()
      await runtime.startMembridge()
      await runtime.startServer()
      await runtime.startWorker()
      await use(runtime)
      await runtime.close()
    },
    { scope: 'worker', timeout: 300_000 },
  ],
  // Every test fails on an error that nobody caught or that broke a page, on a policy that was broken and on a request to another host.
  context: async ({ context }, use) => {
    const wrong: string[] = []
    context.on('weberror', (error) => wrong.push(String(error.error())))
    context.on('console', (message) => {
      const text = message.text()
      if (message.type() !== 'error') return
      if (/Content Security Policy|Refused to/i.test(text)) wrong.push(text)
      // What a page caught and shows as its failure; that a part cannot be fetched is the server's absence.
      if (/\b(Type|Range|Reference)Error\b/.test(text) && !/fetch|dynamically imported/i.test(text)) wrong.push(text)
    })
    context.on('request', (request) => {
      const { hostname, protocol } = new URL(request.url())
      if (protocol.startsWith('http') && hostname !== '127.0.0.1') wrong.push(`a request to ${request.url()}`)
    })
    await use(context)
    expect(wrong).toEqual([])
  },
})

export { expect }

/** Fails on anything that axe finds on the page, or on what it finds about colours. */
export async function accessible(page: Page, about: 'all' | 'colours' = 'all') {
  // What a transition is halfway through has colours that no one is meant to read.
  await page.evaluate(() =>
    Promise.all(
      document
        .getAnimations()
        .filter((animation) => animation.effect?.getComputedTiming().endTime !== Number.POSITIVE_INFINITY)
        .map((animation) => animation.finished.catch(() => undefined)),
    ),
  )
  // RapiDoc has a main element of its own, which is no failure of WCAG.
  const landmarks = ['landmark-main-is-top-level', 'landmark-no-duplicate-main', 'landmark-unique']
  const axe = new AxeBuilder({ page })
  const { violations } = await (about === 'colours'
    ? axe.withRules(['color-contrast', 'link-in-text-block'])
    : axe
        .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'])
        .disableRules(page.url().endsWith('/docs') ? landmarks : [])
  ).analyze()
  expect(
    violations.map(
      (v) =>
        `${v.id}: ${v.help}: ${v.nodes
          .slice(0, 3)
          .map((n) => `${n.target.join(' ')} ${n.failureSummary?.split('\n')[1] ?? ''}`)
          .join('; ')}`,
    ),
  ).toEqual([])
}
