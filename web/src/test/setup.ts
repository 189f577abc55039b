import { cleanup } from '@testing-library/react'
import { afterEach } from 'vitest'

Object.defineProperty(globalThis, 'matchMedia', {
  configurable: true,
  value: () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }),
})

// What stays mounted goes on with its clock, and draws when the test's window is gone.
afterEach(() => {
  cleanup()
  document.body.innerHTML = ''
})
