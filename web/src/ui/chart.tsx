import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { localeOf, useShownTheme } from '@/lib/preferences'

export interface Series {
  label: string
  /** The token of its colour, for example '--good'. */
  colour: string
  values: number[]
}

const whole = Array.from({ length: 13 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat()

/** Bars over time, stacked in the order of the series. */
export default function Chart({
  label,
  times,
  series,
  height = 200,
}: {
  /** What it shows, for those who cannot see it. */
  label: string
  /** Unix milliseconds, one a bar. */
  times: number[]
  series: Series[]
  height?: number
}) {
  const box = useRef<HTMLDivElement>(null)
  const theme = useShownTheme()
  const { i18n } = useTranslation()

  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme decides what the tokens are
  useEffect(() => {
    const host = box.current
    if (!host) return
    const style = getComputedStyle(document.documentElement)
    const colour = (token: string) => style.getPropertyValue(token).trim()
    const locale = localeOf(i18n.language)
    const stacked = series.map((_, i) =>
      times.map((_, x) => series.slice(0, i + 1).reduce((sum, s) => sum + (s.values[x] ?? 0), 0)),
    )
    const time = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit' })
    const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 3 })
    const day = new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short' })
    const axis = {
      stroke: colour('--ink-3'),
      font: '11px "Onest Variable"',
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
    }
    const bars = uPlot.paths.bars?.({ size: [0.7, 40], radius: 0.15 })
    const plot = new uPlot(
      {
        width: host.clientWidth,
        height,
        legend: { show: false },
        cursor: { show: false },
        scales: { y: { range: (_, __, max) => [0, max < 1 ? max * 1.1 || 1 : Math.max(4, Math.ceil(max * 1.1))] } },
        axes: [
          {
            ...axis,
            grid: { show: false },
            gap: 9, // the first label lies beside the y axis' 0
            size: 40,
            values: (_, ticks) =>
              ticks.map((x) =>
                (new Date(x * 1000).getHours() === 0 && new Date(x * 1000).getMinutes() === 0 ? day : time).format(
                  x * 1000,
                ),
              ),
          },
          {
            ...axis,
            size: 44,
            // Of things that are counted there is no half.
            ...(series.every((s) => s.values.every(Number.isInteger)) && { incrs: whole }),
            values: (_, ticks) => ticks.map((y) => compact.format(y)),
          },
        ],
        // The tallest is drawn first, so that each shorter one covers its lower part.
        series: [
          {},
          ...series
            .map((s) => ({
              label: s.label,
              fill: colour(s.colour),
              width: 0,
              points: { show: false },
              ...(bars && { paths: bars }),
            }))
            .reverse(),
        ],
      },
      [times.map((at) => at / 1000), ...stacked.reverse()],
      host,
    )
    const watch = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height }))
    watch.observe(host)
    return () => {
      watch.disconnect()
      plot.destroy()
    }
  }, [times, series, height, theme, i18n.language])

  return <div ref={box} role="img" aria-label={label} className="w-full" style={{ height }} />
}
