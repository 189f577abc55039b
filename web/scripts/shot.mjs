// A quick look at one address: node scripts/shot.mjs URL FILE [light|dark] [WIDTH] [LANGUAGE]
import { chromium } from '@playwright/test'
import { browserOptions } from './browser.mjs'

const [url, file, theme = 'light', width = '1440', language = 'en'] = process.argv.slice(2)
const browser = await chromium.launch(browserOptions)
const page = await browser.newPage({
  viewport: { width: Number(width), height: 900 },
  colorScheme: theme,
  locale: language,
})
page.on('console', (m) => console.log(m.type(), m.text()))
page.on('pageerror', (e) => console.log('pageerror', e.message))
await page.goto(url)
await page.waitForTimeout(1200)
await page.screenshot({ path: file })
await browser.close()
