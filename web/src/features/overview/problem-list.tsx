import { Link } from '@tanstack/react-router'
import { ArrowRight, CircleAlert, CircleCheck, TriangleAlert } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { cn } from '@/lib/cn'
import { useFormat, useNow } from '@/lib/format'
import { Card } from '@/ui/card'
import type { Problem } from './problems'

/** What is wrong, the worst first; or that nothing is. */
export function ProblemList({ problems }: { problems: Problem[] }) {
  const { t } = useTranslation()
  if (problems.length === 0) {
    return (
      <Card className="flex items-center gap-3 px-4 py-3">
        <CircleCheck className="size-5 shrink-0 text-good" aria-hidden />
        <p className="font-medium">{t('overview.fine')}</p>
        <p className="text-ink-2 max-sm:hidden">{t('overview.fineHint')}</p>
      </Card>
    )
  }
  return (
    <section aria-label={t('overview.problems')} className="overflow-hidden rounded-card border bg-surface shadow-card">
      <ul className="divide-y">
        {problems.map((p) => (
          <Row key={`${p.what} ${p.labels ?? ''} ${p.sentence ?? ''}`} problem={p} />
        ))}
      </ul>
    </section>
  )
}

function Row({ problem: p }: { problem: Problem }) {
  const { t } = useTranslation()
  const format = useFormat()
  const now = useNow()
  const Icon = p.bad ? CircleAlert : TriangleAlert
  const values = {
    count: p.count ?? 1,
    names: p.names?.slice(0, 3).join(', ') ?? '',
    labels: p.labels ?? '',
    sentence: p.sentence ?? '',
    ago: p.since === undefined ? '' : format.duration(Math.max(0, now - p.since)),
    until: p.until === undefined ? '' : format.dateTime(p.until),
    free: p.free === undefined ? '' : format.bytes(p.free),
  }
  return (
    <li className={cn('border-l-3', p.bad ? 'border-l-bad' : 'border-l-warn')}>
      <Link {...p.link} className="flex items-center gap-3 px-4 py-3 hover:bg-sunken/70">
        <Icon className={cn('size-5 shrink-0', p.bad ? 'text-bad' : 'text-warn')} aria-hidden />
        <span className="min-w-0 flex-1 wrap-anywhere">
          <span className="block font-medium">{t(`overview.problem.${p.what}.what`, values)}</span>
          <span className="block text-ink-2">{t(`overview.problem.${p.what}.do`, values)}</span>
        </span>
        <ArrowRight className="size-4 shrink-0 text-ink-3" aria-hidden />
      </Link>
    </li>
  )
}
