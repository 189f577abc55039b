import { describe, expect, it } from 'vitest'
import type { Task } from '@/api/client'
import { isSort, type Sort } from '@/app/task-views'
import { columnsOf, conditionsOf, nextSort, savedOf, sorted, viewOf } from './view'

const task = (id: string, more: Partial<Task>) => ({ id, status: 'completed', created_at: 0, ...more }) as Task

describe('a view of the list', () => {
  it('asks for each label, and since when', () => {
    expect(conditionsOf({ q: 'x', label: 'gpu, eu,', within: '1h' }, 5_000_000)).toEqual({
      q: 'x',
      labels: ['gpu', 'eu'],
      since: 1_400_000,
    })
    expect(conditionsOf({})).toEqual({ labels: [], since: 0 })
  })
  it('is saved and comes back as it was', () => {
    const view = { status: 'failed', label: 'gpu,eu', within: '7d', sort: '-cost', columns: 'status,cost' } as const
    expect(savedOf(view)).toMatchObject({ labels: ['gpu', 'eu'], within_sec: 604_800, columns: ['status', 'cost'] })
    expect(viewOf(savedOf(view))).toEqual(view)
  })
  it('that another version saved shows what is known of it', () => {
    expect(viewOf({ within_sec: 17, sort: 'colour', columns: ['colour'] })).toEqual({})
    expect(columnsOf(['cost', 'colour', 'status'])).toEqual(['status', 'cost'])
    expect(isSort('-colour') || isSort('__proto__')).toBe(false)
  })
})

describe('sorted tasks', () => {
  const tasks = [
    task('a', { started_at: 1000, updated_at: 4000, usage: { cost_usd: 2 } }),
    task('b', { status: 'queued' }),
    task('c', { status: 'running', started_at: 1000, usage: { cost_usd: 1 } }),
    task('d', { started_at: 1000, updated_at: 2000, usage: { cost_usd: 3 } }),
  ]
  const ids = (sort: Sort | undefined) =>
    sorted(tasks, sort, 9000)
      .map((t) => t.id)
      .join('')
  it('have the largest or the smallest first, and last what has no value', () => {
    expect(ids('-cost')).toBe('dacb')
    expect(ids('cost')).toBe('cadb')
    expect(ids('-duration')).toBe('cadb')
    expect(ids(undefined)).toBe('abcd')
  })
  it('go round with each press of a column’s head', () => {
    expect(([undefined, '-cost', 'cost'] as const).map((sort) => nextSort(sort, 'cost'))).toEqual([
      '-cost',
      'cost',
      undefined,
    ])
    expect(([undefined, 'created_at'] as const).map((sort) => nextSort(sort, 'created_at'))).toEqual([
      'created_at',
      undefined,
    ])
  })
})
