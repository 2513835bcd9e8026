/** The layout of a chart of usage over time: one level for each time step, and a gap where nothing was measured. */

export interface Point {
  at: string
  mean: number
  peak: number
  total: number | null
}

export interface Given {
  since: string
  until: string
  step_seconds: number
  points: Point[]
}

export interface Size {
  width: number
  height: number
}

export interface Chart {
  /** The highest number on the axis. */
  top: number
  ticks: { value: number; y: number }[]
  times: { at: number; x: number }[]
  /** Closed shapes below the mean. */
  areas: string
  mean: string
  peak: string
  total: string
  /** The span of each point in pixels. */
  spans: { from: number; to: number }[]
}

const HOUR = 3_600_000
const TIME_STEPS = [1 / 6, 0.5, 1, 2, 3, 6, 12, 24, 48].map((hours) => hours * HOUR)
const ROOM_FOR_A_TIME = 76

export function chart(given: Given, { width, height }: Size): Chart {
  const [begin, end] = [Date.parse(given.since), Date.parse(given.until)]
  const step = given.step_seconds * 1000
  const top = niceTop(Math.max(1, ...given.points.flatMap(({ peak, total }) => [peak, total ?? 0])))
  const x = (at: number) => clamp(((at - begin) / (end - begin)) * width, 0, width)
  const y = (value: number) => height - (value / top) * height
  const spans = given.points.map(({ at }) => ({ from: x(Date.parse(at)), to: x(Date.parse(at) + step) }))
  const runs = stretches(given.points, step)
  const line = (level: (point: Point) => number) =>
    runs
      .map((run) =>
        stairs(run.map((index) => ({ ...(spans[index] as Span), y: y(level(given.points[index] as Point)) }))),
      )
      .join("")
  const areas = runs.map((run) => {
    const path = stairs(run.map((index) => ({ ...(spans[index] as Span), y: y((given.points[index] as Point).mean) })))
    const [first, last] = [spans[run[0] as number] as Span, spans[run.at(-1) as number] as Span]
    return `${path}L${last.to},${height}L${first.from},${height}Z`
  })
  return {
    top,
    ticks: [0, top / 2, top].filter(Number.isInteger).map((value) => ({ value, y: y(value) })),
    times: times(begin, end, width).map((at) => ({ at, x: x(at) })),
    areas: areas.join(""),
    mean: line((point) => point.mean),
    peak: line((point) => point.peak),
    total: line((point) => point.total ?? top),
    spans,
  }
}

/** Indices of points without a gap between them. */
export function stretches(points: Point[], step: number): number[][] {
  const found: number[][] = []
  points.forEach((point, index) => {
    const before = points[index - 1]
    if (before && Date.parse(point.at) - Date.parse(before.at) <= step) found.at(-1)?.push(index)
    else found.push([index])
  })
  return found
}

/** The smallest of 1, 2, 4, 5, 6, 8, 10, 20, ... that is at least `value`. */
export function niceTop(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 4, 5, 6, 8, 10].find((each) => each * power >= value) ?? 10) * power
}

/** Full hours or midnights in local time, as many as fit. */
export function times(begin: number, end: number, width: number): number[] {
  const room = Math.max(2, Math.floor(width / ROOM_FOR_A_TIME))
  const step = TIME_STEPS.find((each) => (end - begin) / each <= room) ?? (TIME_STEPS.at(-1) as number)
  const midnight = new Date(begin).setHours(0, 0, 0, 0)
  const found: number[] = []
  for (let at = midnight; at <= end; at += step) if (at >= begin) found.push(at)
  return found
}

interface Span {
  from: number
  to: number
}

function stairs(steps: (Span & { y: number })[]): string {
  return steps
    .map(({ from, to, y }, index) => `${index ? "L" : "M"}${round(from)},${round(y)}L${round(to)},${round(y)}`)
    .join("")
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value))
}
