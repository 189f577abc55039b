import { cleanup, configure } from '@testing-library/react'
import { afterEach } from 'vitest'

Object.defineProperty(globalThis, 'matchMedia', {
  configurable: true,
  value: () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }),
})

// Only what fails takes as long.
configure({ asyncUtilTimeout: 20_000 })

// What stays mounted goes on with its clock, and draws when the test's window is gone.
afterEach(() => {
  cleanup()
  document.body.innerHTML = ''
})
