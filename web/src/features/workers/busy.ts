import type { Lease } from '@/api/client'

const minute = 60_000
/** How far back, and how long one bar is. The shortest that shows all there is. */
const periods = [
  { length: 60 * minute, step: 2 * minute },
  { length: 6 * 60 * minute, step: 10 * minute },
  { length: 24 * 60 * minute, step: 30 * minute },
  { length: 7 * 24 * 60 * minute, step: 240 * minute },
]

/**
 * How many slots were in use on average in each step, from the leases of a worker, the newest
 * first. complete: there are no older ones; otherwise it begins with the oldest.
 */
export function busyFrom(leases: Lease[], complete: boolean, now: number) {
  const oldest = Math.min(now, ...leases.map((l) => l.started_at))
  const period =
    (complete ? periods.find((p) => now - oldest <= p.length) : periods.findLast((p) => now - oldest >= p.length)) ??
    (complete ? periods[3] : periods[0])
  const { length, step } = period ?? { length: 60 * minute, step: 2 * minute }
  const end = Math.ceil(now / step) * step
  const times = Array.from({ length: Math.round(length / step) }, (_, i) => end - length + i * step)
  const values = times.map((from) => {
    const to = Math.min(from + step, now)
    const used = leases.reduce((sum, l) => {
      const until = l.status === 'active' ? now : l.last_heartbeat
      return sum + Math.max(0, Math.min(until, to) - Math.max(l.started_at, from))
    }, 0)
    return to > from ? used / (to - from) : 0
  })
  return { times, values }
}
