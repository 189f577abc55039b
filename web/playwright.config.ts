import { defineConfig } from '@playwright/test'
import { browserOptions } from './scripts/browser.mjs'

/** Real Chromium against real processes: a server, a worker, claude, and the stand-in for the model. */
export default defineConfig({
  testDir: 'e2e',
  ...(process.env.SCREENSHOTS ? { testMatch: 'screenshots.spec.ts' } : { testIgnore: 'screenshots.spec.ts' }),
  outputDir: 'test-results',
  fullyParallel: true,
  workers: 2,
  timeout: 120_000,
  expect: { timeout: 20_000 },
  forbidOnly: Boolean(process.env.CI),
  reporter: [['list']],
  use: {
    launchOptions: browserOptions,
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    trace: 'off',
  },
})
