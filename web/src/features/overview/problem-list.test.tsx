import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { screen } from '@testing-library/react'
import { describe, expect, it, vi } from 'vitest'
import type { Problem } from '@/api/client'
import { show } from '@/test/show'
import { ProblemList } from './problem-list'

vi.mock('@tanstack/react-router', () => ({
  Link: ({ to, search, children }: { to: string; search: Record<string, string>; children: unknown }) => (
    <a href={`${to}?${new URLSearchParams(search)}`}>{children as string}</a>
  ),
}))

const problem = (code: string, more: Partial<Problem> = {}): Problem => ({
  code,
  severity: 'warning',
  sentence: 'The sky falls.',
  action: 'Run.',
  link: '/tasks?status=queued',
  ...more,
})

describe('what is wrong', () => {
  it('is said in the chosen language, with its values and a link', async () => {
    await show(
      <ProblemList problems={[problem('tasks_wait_for_labels', { count: 2, labels: ['gpu', 'arm'] })]} />,
      'uk',
    )
    expect(screen.getByText('2 завдання чекають на виконавця з мітками gpu, arm')).toBeTruthy()
    expect(screen.getByRole('link').getAttribute('href')).toBe('/tasks?status=queued')
  })
  it('is said as the server says it where its code is not known here', async () => {
    await show(<ProblemList problems={[problem('of_the_future', { severity: 'error' })]} />, 'uk')
    expect(screen.getByText('The sky falls.')).toBeTruthy()
    expect(screen.getByText('Run.')).toBeTruthy()
  })
  it('has a text for every code of the server in both languages', async () => {
    const source = readFileSync(join(import.meta.dirname, '../../../../internal/problems/codes.go'), 'utf8')
    const codes = [...source.matchAll(/^\tCode\w+\s*= "(\w+)"/gm)]
      .map((found) => found[1] ?? '')
      .filter((code) => code !== 'tasks_delayed') // nothing is wrong then, and it is not shown
    expect(codes.length).toBeGreaterThan(20)
    for (const language of ['en', 'uk'] as const) {
      const { unmount } = await show(
        <ProblemList problems={codes.map((code) => problem(code, { count: 5, names: ['a'], since: 1, until: 2 }))} />,
        language,
      )
      expect(screen.queryByText('The sky falls.')).toBeNull()
      expect(screen.getAllByRole('link')).toHaveLength(codes.length)
      unmount()
    }
  })
  it('tells why tasks failed, with the way to those that failed so', async () => {
    const causes = [
      { error_class: 'timeout', count: 1200, task_id: 'a' },
      { error_class: 'of_the_future', count: 1, task_id: 'b' },
      { error_class: '', count: 1, task_id: 'c' },
    ]
    await show(<ProblemList problems={[problem('tasks_failed', { count: 1202, causes })]} />)
    const links = screen.getAllByRole('link').map((a) => `${a.textContent} ${a.getAttribute('href')}`)
    expect(links.slice(1)).toEqual([
      'It ran out of time1,200 /tasks?status=failed&error_class=timeout',
      'The task failed1 /tasks?status=failed&error_class=of_the_future',
      'The task failed1 /tasks/c?',
    ])
  })
  it('counts with a mark where counting stopped, and names the first with how many more there are', async () => {
    const many = ['a', 'b', 'c', 'd', 'e']
    await show(
      <ProblemList
        problems={[
          problem('tasks_wait', { count: 1000, more: true }),
          problem('workers_offline', { count: 5, names: many }),
          problem('keys_expire', { count: 3, names: many.slice(0, 3) }),
        ]}
      />,
    )
    expect(screen.getByText('1,000+ tasks wait although a worker could take them')).toBeTruthy()
    expect(screen.getByText('5 workers are offline: a, b, c +2')).toBeTruthy()
    expect(screen.getByText('3 keys expire soon: a, b, c')).toBeTruthy()
  })
  it('tells a folder from a bucket, and an expired certificate from one that will', async () => {
    await show(
      <ProblemList
        problems={[
          problem('artifact_storage_unavailable', { severity: 'error' }),
          problem('artifact_storage_unavailable', { labels: ['another'] }),
          problem('certificate_expires', { until: 1 }),
          problem('certificate_expires', { until: 4_000_000_000_000, labels: ['another'] }),
        ]}
      />,
    )
    expect(screen.getByText('The folder of artifacts cannot be used')).toBeTruthy()
    expect(screen.getByText('Object storage cannot be reached')).toBeTruthy()
    expect(screen.getByText(/^The server’s certificate expired on /)).toBeTruthy()
    expect(screen.getByText(/^The server’s certificate expires on /)).toBeTruthy()
  })
  it('is nothing where nothing is wrong, also while tasks are delayed', async () => {
    await show(<ProblemList problems={[problem('tasks_delayed', { severity: 'info' })]} />)
    expect(screen.getByText('Everything is working')).toBeTruthy()
  })
})
