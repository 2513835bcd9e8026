import { expect, test } from "vitest"
import {
  chartsOf,
  colorOf,
  linesOf,
  type MetricSeries,
  type Metrics,
  merge,
  nearest,
  numberText,
  smooth,
} from "@/lib/metric-curves"

const series = (change: Partial<MetricSeries> = {}): MetricSeries => ({
  subject: "node:r1/train",
  name: "train",
  run: "first",
  source: "pod",
  tag: "loss",
  count: 2,
  points: [
    [1, 100, 2],
    [2, 110, 1],
  ],
  ...change,
})
const metrics = (...all: MetricSeries[]): Metrics => ({
  series: all,
  problems: [],
  patterns: {},
  cursor: "e.1",
  live: true,
})
const view = { axis: "step" as const, weight: 0, log: false, hidden: new Set<string>(), search: "" }
const drawn = (all: Metrics, change: Partial<Parameters<typeof chartsOf>[2]> = {}) =>
  chartsOf(all, linesOf(all.series, false), { ...view, ...change })

test("an update replaces the series that it contains and keeps the others", () => {
  const before = metrics(series(), series({ tag: "lr" }))
  const after = merge(before, { ...metrics(series({ count: 3 })), cursor: "e.2", live: false })
  expect(after.series.map(({ tag, count }) => [tag, count])).toEqual([
    ["loss", 3],
    ["lr", 2],
  ])
  expect([after.cursor, after.live]).toEqual(["e.2", false])
  expect(merge(undefined, before)).toBe(before)
})

test("smoothing is TensorBoard's: an average without the bias of its start", () => {
  // 0.6: (0.4*1)/(1-0.6), (0.6*0.4+0.4*2)/(1-0.36), (0.6*1.04+0.4*3)/(1-0.216)
  const found = smooth([1, 2, 3], 0.6)
  expect(found[0]).toBeCloseTo(1, 10)
  expect(found[1]).toBeCloseTo(1.625, 10)
  expect(found[2]).toBeCloseTo(1.824 / 0.784, 10)
})

test("smoothing leaves constants, values that are not finite, and everything at weight 0 alone", () => {
  expect(smooth([5, 5, 5], 0.9)).toEqual([5, 5, 5])
  expect(smooth([1, 2], 0)).toEqual([1, 2])
  const found = smooth([1, Number.NaN, 1.5], 0.5)
  expect(found[1]).toBeNaN()
  expect(found[2]).toBeCloseTo((0.5 * 0.5 + 0.5 * 1.5) / 0.75, 10)
})

test("axes: steps, seconds since the start, times", () => {
  const all = metrics(series())
  expect(drawn(all)[0]?.curves[0]?.x).toEqual([1, 2])
  expect(drawn(all, { axis: "relative" })[0]?.curves[0]?.x).toEqual([0, 10])
  expect(drawn(all, { axis: "time" })[0]?.curves[0]?.x).toEqual([100, 110])
})

test("points are sorted, and the last value of a repeated step counts", () => {
  const points: MetricSeries["points"] = [
    [1, 1, 1],
    [3, 2, 3],
    [2, 3, 2],
    [3, 4, 4],
  ]
  const curve = drawn(metrics(series({ points })))[0]?.curves[0]
  expect([curve?.x, curve?.y]).toEqual([
    [1, 2, 3],
    [1, 2, 4],
  ])
})

test("values that are not finite are gaps and are listed; a logarithmic scale has no room for zero and below", () => {
  const points: MetricSeries["points"] = [
    [1, 1, 1],
    [2, 2, "NaN"],
    [3, 3, "-Infinity"],
    [4, 4, 0],
    [5, 5, -2],
  ]
  const all = metrics(series({ points }))
  const curve = drawn(all)[0]?.curves[0]
  expect(curve?.y).toEqual([1, null, null, 0, -2])
  expect(curve?.odd).toEqual([
    { x: 2, value: Number.NaN },
    { x: 3, value: Number.NEGATIVE_INFINITY },
  ])
  expect(drawn(all, { log: true })[0]?.curves[0]?.y).toEqual([1, null, null, null, null])
})

test("charts are sorted by name, found by a part of it, and without hidden curves", () => {
  const all = metrics(series({ tag: "layer10" }), series({ tag: "layer9" }), series({ tag: "Loss", source: "other" }))
  expect(drawn(all).map(({ tag }) => tag)).toEqual(["layer9", "layer10", "Loss"])
  expect(drawn(all, { search: "LOSS" }).map(({ tag }) => tag)).toEqual(["Loss"])
  const hidden = new Set(["node:r1/train\nother"])
  expect(drawn(all, { hidden }).map(({ curves }) => curves.length)).toEqual([1, 1, 0])
})

test("curves are named as briefly as possible, and have different looks", () => {
  const labels = (...all: MetricSeries[]) => [...linesOf(all, false).values()].map(({ label }) => label)
  expect(labels(series())).toEqual(["train"])
  expect(labels(series(), series({ source: "pod:/tmp/x" }))).toEqual(["pod", "pod:/tmp/x"])
  expect(labels(series(), series({ subject: "node:r1/test", name: "test" }))).toEqual(["train", "test"])
  expect(labels(series(), series({ subject: "node:r2/train", run: "second" }))).toEqual([
    "first / train",
    "second / train",
  ])
  expect(
    labels(series(), series({ source: "pod:/tmp/x" }), series({ subject: "job:a/b/c", name: "c", run: "" })),
  ).toEqual(["first / train · pod", "first / train · pod:/tmp/x", "c"])
  expect(new Set(Array.from({ length: 20 }, (_, at) => colorOf(at, true))).size).toBe(20)
})

test("the nearest point of a curve", () => {
  expect([-5, 0, 4, 6, 10, 99].map((place) => nearest([0, 5, 10], place))).toEqual([0, 0, 1, 1, 2, 2])
})

test("numbers are short and exact enough to compare", () => {
  expect([0, 0.123456789, 12345.678, 1e-9, 1e12, Number.NaN, Infinity, null].map(numberText)).toEqual([
    "0",
    "0.12346",
    "12346",
    "1.000e-9",
    "1.000e+12",
    "NaN",
    "∞",
    "–",
  ])
})
