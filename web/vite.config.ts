import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

const server = process.env.BLOOM_URL ?? 'http://127.0.0.1:5000'
const proxied = ['/api', '/openapi.json', '/metrics', '/health', '/healthz', '/readyz']

/** Names what the application is made of, for its service worker to keep. The reference of the API is too large for that. */
const files: Plugin = {
  name: 'files',
  generateBundle: {
    order: 'post', // a chunk that became part of another one is gone by then
    handler(_, bundle) {
      const names = Object.keys(bundle).filter((name) => name.startsWith('assets/') && !/\/docs-/.test(name))
      this.emitFile({ type: 'asset', fileName: 'files.json', source: JSON.stringify(names.map((name) => `/${name}`)) })
    },
  },
}

export default defineConfig({
  plugins: [react(), tailwind(), files],
  resolve: {
    alias: {
      '@': new URL('./src', import.meta.url).pathname,
      // What dialogs and menus style the page with; theirs writes a style element, which our policy refuses.
      'react-style-singleton': new URL('./src/lib/style-singleton.ts', import.meta.url).pathname,
    },
  },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0, // the content security policy allows no data: scripts or fonts
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1200,
    rolldownOptions: {
      output: {
        codeSplitting: {
          // What every page begins with compresses better as one file than as dozens.
          groups: [{ name: 'common', tags: ['$initial'] }],
        },
      },
    },
  },
  server: {
    port: 5173,
    proxy: Object.fromEntries(proxied.map((path) => [path, { target: server, changeOrigin: true }])),
  },
  test: {
    environment: 'jsdom',
    include: ['src/**/*.test.{ts,tsx}'],
    setupFiles: ['src/test/setup.ts'],
    testTimeout: 30_000,
  },
})
