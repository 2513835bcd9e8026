/** SKUs over time: the mean as an area, the peak as a line, the total as a dashed line. A table shows the same numbers. */
import { type PointerEvent, useEffect, useMemo, useRef, useState } from "react"
import type { Usage } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { clusterTexts } from "@/i18n/cluster"
import { useTexts } from "@/i18n/translate"
import { chart } from "@/lib/chart-layout"
import { classes } from "@/lib/classes"
import { locale, moment } from "@/lib/times"

const HEIGHT = 160
const LEFT = 34
const BELOW = 22
const ABOVE = 8
const RIGHT = 8

export function UsageChart({ usage, label }: { usage: Usage; label: string }) {
  const w = useTexts(clusterTexts)
  const language = usePreferences((all) => all.language)
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const [at, setAt] = useState<number>()
  const drawn = useMemo(
    () => chart(usage, { width: Math.max(40, width - LEFT - RIGHT), height: HEIGHT }),
    [usage, width],
  )
  const days = Date.parse(usage.until) - Date.parse(usage.since) > 36 * 3_600_000
  const clock = new Intl.DateTimeFormat(
    locale(language),
    days ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" },
  )
  const point = (event: PointerEvent<SVGSVGElement>) => {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT
    const found = drawn.spans.findIndex(({ from, to }) => from <= x && x <= to)
    setAt(found < 0 ? undefined : found)
  }
  const chosen = at === undefined ? undefined : usage.points[at]
  const span = at === undefined ? undefined : drawn.spans[at]
  const say = (one: (typeof usage.points)[number]) => ({
    mean: number(one.mean),
    peak: one.peak,
    total: one.total ?? "–",
  })
  return (
    <figure className="flex flex-col gap-2">
      <figcaption className="flex flex-wrap items-center gap-x-4 gap-y-1 text-[13px] text-muted-foreground">
        <Key className="bg-fill-running/35">{w("mean")}</Key>
        <Key className="h-0.5 bg-fill-running">{w("peak")}</Key>
        <Key className="h-0 border-t-2 border-dashed border-muted-foreground bg-transparent">{w("available")}</Key>
        <span className="min-h-5 flex-1 text-right whitespace-nowrap tabular-nums" aria-hidden>
          {chosen && `${moment(chosen.at, language)} · ${w("readout", say(chosen))}`}
        </span>
      </figcaption>
      <div ref={box} className="min-w-0">
        <svg
          role="img"
          aria-label={label}
          width={width}
          height={HEIGHT + ABOVE + BELOW}
          className="block max-w-full overflow-visible"
          onPointerMove={point}
          onPointerLeave={() => setAt(undefined)}
        >
          <g transform={`translate(${LEFT},${ABOVE})`} className="text-fill-running">
            {drawn.ticks.map(({ value, y }) => (
              <g key={value}>
                <line x1={0} x2={width - LEFT - RIGHT} y1={y} y2={y} stroke="var(--border)" />
                <text x={-8} y={y + 4} textAnchor="end" fontSize={12} fill="var(--muted-foreground)">
                  {value}
                </text>
              </g>
            ))}
            {drawn.times.map(({ at, x }) => (
              <text
                key={at}
                x={x}
                y={HEIGHT + 17}
                textAnchor={x < 16 ? "start" : x > width - LEFT - RIGHT - 16 ? "end" : "middle"}
                fontSize={12}
                fill="var(--muted-foreground)"
              >
                {clock.format(at)}
              </text>
            ))}
            {span && (
              <rect
                x={span.from}
                width={Math.max(1, span.to - span.from)}
                y={0}
                height={HEIGHT}
                fill="currentColor"
                opacity={0.15}
              />
            )}
            <path d={drawn.areas} fill="currentColor" opacity={0.3} />
            <path
              d={drawn.total}
              fill="none"
              stroke="var(--muted-foreground)"
              strokeWidth={1.5}
              strokeDasharray="5 4"
            />
            <path d={drawn.peak} fill="none" stroke="currentColor" strokeWidth={1.5} />
          </g>
        </svg>
      </div>
      {usage.points.length === 0 && <p className="text-[13px] text-muted-foreground">{w("noUsageYet")}</p>}
      {usage.points.length > 0 && (
        <details className="text-[13px]">
          <summary className="cursor-pointer text-primary">{w("asTable")}</summary>
          <div
            className="mt-2 max-h-72 overflow-auto rounded-lg border"
            tabIndex={0}
            role="region"
            aria-label={w("asTable")}
          >
            <table className="w-full border-collapse text-left tabular-nums">
              <thead className="sticky top-0 bg-card">
                <tr className="border-b text-muted-foreground">
                  {(["from", "mean", "peak", "available"] as const).map((word) => (
                    <th key={word} scope="col" className="px-3 py-1.5 font-medium">
                      {w(word)}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {[...usage.points].reverse().map((one) => (
                  <tr key={one.at} className="border-b last:border-0">
                    <td className="px-3 py-1 whitespace-nowrap">{moment(one.at, language)}</td>
                    <td className="px-3 py-1">{number(one.mean)}</td>
                    <td className="px-3 py-1">{one.peak}</td>
                    <td className="px-3 py-1">{one.total ?? "–"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </figure>
  )
}

function Key({ className, children }: { className: string; children: string }) {
  return (
    <span className="inline-flex items-center gap-1.5">
      <span aria-hidden className={classes("inline-block h-2.5 w-4", className)} />
      {children}
    </span>
  )
}

function number(value: number): number {
  return Math.round(value * 10) / 10
}

function useWidth(box: React.RefObject<HTMLDivElement | null>): number {
  const [width, setWidth] = useState(640)
  useEffect(() => {
    const element = box.current
    if (!element) return
    const measure = () => setWidth(element.clientWidth)
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    measure()
    return () => observer.disconnect()
  }, [box])
  return width
}
