import { afterEach } from 'vitest'

Object.defineProperty(globalThis, 'matchMedia', {
  configurable: true,
  value: () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }),
})

afterEach(() => {
  document.body.innerHTML = ''
})
