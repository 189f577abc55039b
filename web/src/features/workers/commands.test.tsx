import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { renderHook } from '@testing-library/react'
import type { ReactNode } from 'react'
import { expect, it } from 'vitest'
import type { Health } from '@/api/client'
import { keys } from '@/api/queries'
import { useCommands } from './commands'

const of = (health: Partial<Health>) => {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } })
  client.setQueryData(keys.health, health)
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  )
  return renderHook(() => useCommands(), { wrapper }).result.current
}

it('names what the server needs: its address for others, a key, and its authority', () => {
  const commands = of({ auth: 'keys', private_ca: true })
  expect(commands.named).toBe(true)
  expect(commands.install('KEY', 'node')).toBe(
    'curl -fsSL --cacert ca.pem http://SERVER:3000/install.sh | sudo sh -s -- --name node --key KEY --ca-file ca.pem',
  )
  expect(commands.worker()).toBe('bloom worker --runtime-url http://SERVER:3000 --key-file worker.key --ca-file ca.pem')
  expect(commands.task).toContain(' --key-file bloom.key --ca-file ca.pem ')
})

it('names its own address where no other machine reaches the server', () => {
  const { onlyHere, named, worker } = of({ auth: 'development', loopback_only: true })
  expect({ onlyHere, named }).toEqual({ onlyHere: true, named: false })
  expect(worker('node')).toBe('bloom worker --runtime-url http://localhost:3000 --name node')
})
