import { screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it, vi } from 'vitest'
import { show } from '@/test/show'
import { WorkerLogs } from './worker-logs'

const logs = vi.hoisted(() => ({ now: {} as unknown }))
vi.mock('@/api/client', async (load) => ({
  ...(await load<object>()),
  api: { GET: () => undefined },
  data: async () => logs.now,
}))

describe('the log of a worker', () => {
  it('shows its lines as text', async () => {
    const line = { at: 1, level: 'ERROR', text: 'claude <img src=x onerror=alert(1)> is missing' }
    logs.now = { worker_id: 'a', updated_at: Date.now(), lines: [line] }
    const { container } = await show(<WorkerLogs id="a" />)
    expect(await screen.findByText(/claude <img src=x/)).toBeTruthy()
    expect(screen.getByText('ERROR')).toBeTruthy()
    expect(container.querySelector('img')).toBeNull()
  })
  it('is filtered by text and level', async () => {
    logs.now = {
      worker_id: 'a',
      updated_at: Date.now(),
      lines: [
        { at: 1, level: 'INFO', text: 'task begun' },
        { at: 2, level: 'ERROR', text: 'claude is missing' },
      ],
    }
    await show(<WorkerLogs id="a" />)
    await screen.findByText(/task begun/)
    await userEvent.selectOptions(screen.getByLabelText('Level'), 'Errors')
    expect(screen.queryByText(/task begun/)).toBeNull()
    await userEvent.type(screen.getByLabelText('Filter the lines'), 'BEGUN')
    expect(screen.getByText('No line matches')).toBeTruthy()
    await userEvent.selectOptions(screen.getByLabelText('Level'), 'All levels')
    expect(screen.getByText(/task begun/)).toBeTruthy()
  })
  it('says that none were reported', async () => {
    logs.now = { worker_id: 'a', updated_at: 0, lines: [] }
    await show(<WorkerLogs id="a" />, 'uk')
    expect(await screen.findByText('Цей виконавець ще не надсилав рядків журналу')).toBeTruthy()
  })
})
