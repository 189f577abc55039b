import { screen } from '@testing-library/react'
import { Boxes } from 'lucide-react'
import { describe, expect, it } from 'vitest'
import { show } from '@/test/show'
import { Paged } from './paged'

const list = (pages: Record<string, { items: string[]; next: string | null }>) => (
  <Paged<string>
    label="Things"
    queryKey={['things']}
    read={async (cursor) => pages[cursor ?? ''] ?? { items: [], next: null }}
    icon={Boxes}
    none="None"
    noneHint="There are none."
    head={<th>Name</th>}
    row={(name) => (
      <tr key={name}>
        <td>{name}</td>
      </tr>
    )}
  />
)

describe('a paged list', () => {
  it('reads on when a page is empty and others follow', async () => {
    await show(list({ '': { items: [], next: 'a' }, a: { items: [], next: 'b' }, b: { items: ['found'], next: 'c' } }))
    expect(await screen.findByText('found')).toBeTruthy()
    expect(screen.getByRole('button', { name: 'Show more' })).toBeTruthy()
  })
  it('says that there is nothing only at the end', async () => {
    await show(list({ '': { items: [], next: 'a' }, a: { items: [], next: null } }))
    expect(await screen.findByText('There are none.')).toBeTruthy()
  })
})
