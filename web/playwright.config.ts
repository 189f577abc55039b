import { defineConfig } from '@playwright/test'
import { browserOptions } from './scripts/browser.mjs'

/** Real Chromium against real processes: a server, a worker, claude, and the stand-in for the model. */
export default defineConfig({
  testDir: 'e2e',
  ...(process.env.SCREENSHOTS ? { testMatch: 'screenshots.spec.ts' } : { testIgnore: 'screenshots.spec.ts' }),
  outputDir: 'test-results',
  fullyParallel: true,
  // On two processors: some tests wait a minute, and most for a server now and then.
  workers: 3,
  // Only what fails takes as long: a machine that does other work at the same time must not fail a test.
  timeout: 600_000,
  expect: { timeout: 60_000 },
  forbidOnly: Boolean(process.env.CI),
  reporter: [['list']],
  use: {
    launchOptions: browserOptions,
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    // What is still fading in has too little contrast for axe.
    contextOptions: { reducedMotion: 'reduce' },
    trace: 'off',
    actionTimeout: 120_000,
  },
})
