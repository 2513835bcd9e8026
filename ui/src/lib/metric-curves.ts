/** Curves of metrics as plain data: what an update adds, the axes, smoothing, and what is drawn and read. */

export type MetricValue = number | string
export type MetricPoint = [step: number, time: number, value: MetricValue]

export interface MetricSeries {
  subject: string
  name: string
  run: string
  source: string
  tag: string
  count: number
  points: MetricPoint[]
}

export interface MetricProblem {
  subject: string
  source: string
  message: string
}

export interface Metrics {
  series: MetricSeries[]
  problems: MetricProblem[]
  patterns: Record<string, string>
  cursor: string
  live: boolean
}

export type XAxis = "step" | "relative" | "time"

/** A line: the same in every chart. */
export interface Line {
  key: string
  label: string
  color: string
  dash: boolean
}

export interface Curve {
  line: Line
  x: number[]
  /** null where the value is not a number, or cannot be drawn on a logarithmic scale. */
  y: (number | null)[]
  smooth: (number | null)[]
  /** Values that are not finite, and where. */
  odd: { x: number; value: number }[]
  last: number
  count: number
  shown: number
}

export interface Chart {
  tag: string
  curves: Curve[]
}

/** A later answer contains only series with new points, each as a whole. */
export function merge(before: Metrics | undefined, later: Metrics): Metrics {
  if (!before) return later
  const found = new Map(before.series.map((series) => [idOf(series), series]))
  for (const series of later.series) found.set(idOf(series), series)
  return { ...later, series: [...found.values()] }
}

export function toNumber(value: MetricValue): number {
  return typeof value === "number" ? value : Number(value)
}

/**
 * An exponential moving average without the bias of its first value, as TensorBoard draws it. A value that is not
 * finite is passed on and does not change the average; a constant curve stays as it is.
 */
export function smooth(values: readonly number[], weight: number): number[] {
  if (weight <= 0 || values.every((value) => value === values[0])) return [...values]
  let average = 0
  let correction = 1
  return values.map((value) => {
    if (!Number.isFinite(value)) return value
    average = average * weight + (1 - weight) * value
    correction *= weight
    return average / (1 - correction)
  })
}

/** One line for each source of each subject, named as briefly as its neighbours allow. */
export function linesOf(series: readonly MetricSeries[], dark: boolean): Map<string, Line> {
  const keys = [...new Set(series.map(lineKey))]
  const first = new Map(series.map((each) => [lineKey(each), each]))
  const subjects = new Set(series.map((each) => each.subject))
  const runs = new Set(series.map((each) => each.run))
  const sources = new Map<string, Set<string>>()
  for (const each of series) {
    const own = sources.get(each.subject) ?? new Set()
    sources.set(each.subject, own.add(each.source))
  }
  return new Map(
    keys.map((key, at) => {
      const { subject, name, run, source } = first.get(key) as MetricSeries
      const whose = runs.size > 1 && run ? `${run} / ${name}` : name
      const several = (sources.get(subject)?.size ?? 0) > 1
      const label = !several ? whose : subjects.size > 1 ? `${whose} · ${source}` : source
      return [key, { key, label, color: colorOf(at, dark), dash: at % 20 >= 10 }]
    }),
  )
}

export function chartsOf(
  metrics: Metrics,
  lines: ReadonlyMap<string, Line>,
  view: { axis: XAxis; weight: number; log: boolean; hidden: ReadonlySet<string>; search: string },
): Chart[] {
  const wanted = view.search.trim().toLowerCase()
  const tags = new Map<string, MetricSeries[]>()
  for (const series of metrics.series) {
    if (wanted && !series.tag.toLowerCase().includes(wanted)) continue
    const own = tags.get(series.tag)
    if (own) own.push(series)
    else tags.set(series.tag, [series])
  }
  return [...tags]
    .sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
    .map(([tag, all]) => ({
      tag,
      curves: all
        .filter((series) => !view.hidden.has(lineKey(series)))
        .map((series) => curveOf(series, lines.get(lineKey(series)) as Line, view)),
    }))
}

function curveOf(series: MetricSeries, line: Line, view: { axis: XAxis; weight: number; log: boolean }): Curve {
  const start = series.points[0]?.[1] ?? 0
  const place = ([step, time]: MetricPoint) =>
    view.axis === "step" ? step : view.axis === "time" ? time : time - start
  // A program that starts again repeats steps: the last value of a step counts, as in a table by step.
  const byPlace = new Map(series.points.map((point) => [place(point), toNumber(point[2])]))
  const x = [...byPlace.keys()].sort((a, b) => a - b)
  const values = x.map((each) => byPlace.get(each) as number)
  const drawn = (value: number) => (Number.isFinite(value) && (!view.log || value > 0) ? value : null)
  return {
    line,
    x,
    y: values.map(drawn),
    smooth: smooth(values, view.weight).map(drawn),
    odd: x.flatMap((each, at) => (Number.isFinite(values[at]) ? [] : [{ x: each, value: values[at] as number }])),
    last: values.at(-1) ?? Number.NaN,
    count: series.count,
    shown: series.points.length,
  }
}

/** The point of a curve nearest to a place. */
export function nearest(x: readonly number[], place: number): number {
  let low = 0
  let high = x.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if ((x[middle] as number) < place) low = middle + 1
    else high = middle
  }
  const before = x[low - 1]
  return before !== undefined && place - before < (x[low] as number) - place ? low - 1 : low
}

/** Five digits are enough to compare two curves. */
export function numberText(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–"
  if (Number.isNaN(value)) return "NaN"
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞"
  const size = Math.abs(value)
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(3)
  return String(Number(value.toPrecision(5)))
}

/** Colors as far apart as possible, however many are used. */
export function colorOf(at: number, dark: boolean): string {
  const hue = (255 + at * 137.508) % 360
  return `oklch(${dark ? 0.76 : 0.55} ${dark ? 0.14 : 0.17} ${hue.toFixed(1)})`
}

export function lineKey(series: Pick<MetricSeries, "subject" | "source">): string {
  return `${series.subject}\n${series.source}`
}

function idOf(series: MetricSeries): string {
  return `${lineKey(series)}\n${series.tag}`
}
