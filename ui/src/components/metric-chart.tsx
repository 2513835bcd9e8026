/** One metric as curves. All charts of a panel share the cursor: `group` names the panel. */
import { useEffect, useMemo, useRef, useState } from "react"
import uPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import { usePreferences } from "@/app/preferences"
import { metricTexts } from "@/i18n/metrics"
import { useTexts } from "@/i18n/translate"
import { type Chart, type Curve, nearest, numberText, type XAxis } from "@/lib/metric-curves"
import { duration, locale } from "@/lib/times"

const HEIGHT = 200
const ODD_SIZE = 5

interface Props {
  chart: Chart
  axis: XAxis
  log: boolean
  smoothed: boolean
  group: string
  dark: boolean
  /** Whether the axis of values starts at 0, as for amounts, whose small changes would look large otherwise. */
  fromZero?: boolean
}

const FROM_ZERO = { min: { pad: 0, soft: 0, mode: 1 as const }, max: { pad: 0.1, soft: 0, mode: 0 as const } }

export function MetricChart({ chart, axis, log, smoothed, group, dark, fromZero = false }: Props) {
  const w = useTexts(metricTexts)
  const language = usePreferences((all) => all.language)
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const [place, setPlace] = useState<number>()
  const { curves } = chart
  const table = useMemo(() => tableOf(curves, smoothed), [curves, smoothed])
  const latest = useRef(curves)
  latest.current = curves
  const form = curves.map(({ line }) => `${line.key}${line.color}`).join("\n")

  // biome-ignore lint/correctness/useExhaustiveDependencies: new points are set below, without a new chart.
  useEffect(() => {
    const element = box.current
    if (!element) return
    const style = getComputedStyle(document.documentElement)
    const ink = { stroke: style.getPropertyValue("--muted-foreground"), line: style.getPropertyValue("--border") }
    const grid = { stroke: ink.line, width: 1 }
    const scaleText = (_: uPlot, splits: number[]) => splits.map((split) => axisText(split, axis, language, splits))
    const made = new uPlot(
      {
        width: Math.max(element.clientWidth, 100),
        height: HEIGHT,
        legend: { show: false },
        cursor: {
          y: false,
          sync: { key: group, scales: ["x", null] },
          drag: { x: true, y: false },
          points: { size: 5 },
        },
        scales: { x: { time: false }, y: { distr: log ? 3 : 1, ...(fromZero ? { range: FROM_ZERO } : {}) } },
        axes: [
          { stroke: ink.stroke, grid, ticks: grid, size: 28, values: scaleText, space: axis === "step" ? 50 : 70 },
          { stroke: ink.stroke, grid, ticks: grid, size: 58, values: (_, splits) => splits.map(splitText) },
        ],
        series: [{}, ...latest.current.flatMap((curve) => linesOf(curve, smoothed))],
        hooks: {
          setCursor: [
            (self) => {
              const { left } = self.cursor
              setPlace(left === undefined || left < 0 ? undefined : self.posToVal(left, "x"))
            },
          ],
          draw: [(self) => drawOdd(self, latest.current)],
        },
      },
      table,
      element,
    )
    plot.current = made
    const observer = new ResizeObserver(() =>
      made.setSize({ width: Math.max(element.clientWidth, 100), height: HEIGHT }),
    )
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.current = null
      made.destroy()
    }
  }, [form, axis, log, smoothed, group, dark, language])

  useEffect(() => {
    if (plot.current && plot.current.series.length === table.length) plot.current.setData(table)
  }, [table])

  const odd = curves.reduce((sum, curve) => sum + curve.odd.length, 0)
  const thinned = curves.filter((curve) => curve.shown < curve.count)
  return (
    <figure className="flex min-w-0 flex-col gap-1 rounded-lg border bg-card p-3">
      <figcaption className="flex items-baseline gap-2">
        <span className="min-w-0 flex-1 truncate font-mono text-[13px] font-medium" title={chart.tag}>
          {chart.tag}
        </span>
        <span className="text-xs whitespace-nowrap text-muted-foreground tabular-nums" aria-hidden>
          {place !== undefined && axisText(place, axis, language)}
        </span>
      </figcaption>
      <div ref={box} role="img" aria-label={chart.tag} className="min-w-0 overflow-hidden" />
      <ul className="flex max-h-28 flex-col overflow-y-auto text-xs tabular-nums">
        {curves.map((curve) => (
          <li key={curve.line.key} className="flex items-center gap-2">
            <span
              aria-hidden
              className="w-4 shrink-0 border-t-2"
              style={{ borderColor: curve.line.color, borderStyle: curve.line.dash ? "dashed" : "solid" }}
            />
            <span className="min-w-0 flex-1 truncate text-muted-foreground" title={curve.line.label}>
              {curve.line.label}
            </span>
            <span className="font-medium">{readout(curve, place, smoothed)}</span>
          </li>
        ))}
      </ul>
      {odd > 0 && <p className="text-xs text-destructive">{w("notFinite", { n: odd })}</p>}
      {thinned[0] && (
        <p className="text-xs text-muted-foreground">
          {w("thinned", { shown: thinned[0].shown, count: thinned[0].count })}
        </p>
      )}
    </figure>
  )
}

/** All curves on the places of all of them. A place that a curve lacks is no gap; a value that is no number is one. */
function tableOf(curves: readonly Curve[], smoothed: boolean): uPlot.AlignedData {
  if (!curves.length) return [[], []]
  return uPlot.join(curves.map((curve) => [curve.x, curve.y, ...(smoothed ? [curve.smooth] : [])]))
}

function linesOf({ line, x }: Curve, smoothed: boolean): uPlot.Series[] {
  const dash = line.dash ? [6, 4] : undefined
  const points = { show: x.length < 30 && !smoothed, size: 4 }
  const main: uPlot.Series = { label: line.label, stroke: line.color, width: 1.5, points, ...(dash ? { dash } : {}) }
  return smoothed ? [{ ...main, alpha: 0.25, width: 1 }, main] : [main]
}

/** Values that are not finite, as triangles at the edge where they would be. */
function drawOdd(plot: uPlot, curves: readonly Curve[]): void {
  const { ctx, bbox } = plot
  const size = ODD_SIZE * devicePixelRatio
  for (const { odd, line } of curves) {
    ctx.fillStyle = line.color
    for (const { x, value } of odd) {
      const left = plot.valToPos(x, "x", true)
      if (left < bbox.left || left > bbox.left + bbox.width) continue
      const down = value === Number.NEGATIVE_INFINITY
      const base = down ? bbox.top + bbox.height - size : bbox.top + size
      ctx.beginPath()
      ctx.moveTo(left - size, base)
      ctx.lineTo(left + size, base)
      ctx.lineTo(left, down ? base + size : base - size)
      ctx.fill()
    }
  }
}

/** The value at the cursor, or the last one; with smoothing, the smooth value before it. */
function readout(curve: Curve, place: number | undefined, smoothed: boolean): string {
  const at = place === undefined ? curve.x.length - 1 : nearest(curve.x, place)
  const odd = curve.odd.find(({ x }) => x === curve.x[at])
  const value = numberText(odd ? odd.value : curve.y[at])
  return smoothed && !odd ? `${numberText(curve.smooth[at])} (${value})` : value
}

function axisText(value: number, axis: XAxis, language: "en" | "zh", among: number[] = []): string {
  if (axis === "step")
    return Number.isInteger(value) ? value.toLocaleString("en") : among.length ? "" : value.toFixed(0)
  if (axis === "relative") return duration(value * 1000)
  const days = among.length > 1 && (among.at(-1) ?? 0) - (among[0] ?? 0) > 86_400
  return new Intl.DateTimeFormat(
    locale(language),
    days ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit", second: "2-digit" },
  ).format(value * 1000)
}

function splitText(split: number | null): string {
  return split === null ? "" : numberText(split)
}
