import { describe, expect, it } from "vitest"
import { amountText, skuText, sumAmounts } from "@/lib/amounts"
import { chart, niceTop, stretches, times } from "@/lib/chart-layout"
import { fromLocalInput, toLocalInput } from "@/lib/times"
import { browserName } from "@/pages/account"

const NOON = Date.parse("2026-01-01T12:00:00Z")
const at = (minutes: number) => new Date(NOON + minutes * 60_000).toISOString()
const point = (minutes: number, mean = 1, peak = 2, total: number | null = 4) => ({
  at: at(minutes),
  mean,
  peak,
  total,
})

describe("a chart of usage", () => {
  const given = {
    since: at(0),
    until: at(60),
    step_seconds: 300,
    points: [point(0, 1, 4), point(5, 3, 4), point(30, 2, 2)],
  }
  const drawn = chart(given, { width: 120, height: 40 })

  it("has a level for every step, and a gap where nothing was measured", () => {
    expect(drawn.mean).toBe("M0,30L10,30L10,10L20,10M60,20L70,20")
    expect(drawn.peak).toBe("M0,0L10,0L10,0L20,0M60,20L70,20")
    expect(drawn.total).toBe("M0,0L10,0L10,0L20,0M60,0L70,0")
    expect(drawn.areas).toBe("M0,30L10,30L10,10L20,10L20,40L0,40ZM60,20L70,20L70,40L60,40Z")
  })

  it("knows which point is where", () => expect(drawn.spans[2]).toEqual({ from: 60, to: 70 }))

  it("has whole numbers on its axis", () =>
    expect(drawn.ticks).toEqual([
      { value: 0, y: 40 },
      { value: 2, y: 20 },
      { value: 4, y: 0 },
    ]))

  it("is empty without data", () => expect(chart({ ...given, points: [] }, { width: 100, height: 10 }).areas).toBe(""))

  it("stays within its frame", () =>
    expect(chart({ ...given, points: [point(-3), point(58)] }, { width: 120, height: 40 }).spans).toEqual([
      { from: 0, to: 4 },
      { from: 116, to: 120 },
    ]))
})

it("adjacent points are grouped", () =>
  expect(stretches([point(0), point(5), point(15)], 300_000)).toEqual([[0, 1], [2]]))

it.each([
  [1, 1],
  [3, 4],
  [5, 5],
  [7, 8],
  [9, 10],
  [11, 20],
  [41, 50],
  [100, 100],
])("an axis for %i goes to %i", (value, top) => expect(niceTop(value)).toBe(top))

it("the axis has as many times as fit", () => {
  const day = 24 * 3_600_000
  expect(times(NOON, NOON + day, 800).length).toBeLessThanOrEqual(11)
  expect(times(NOON, NOON + day, 200).length).toBeLessThanOrEqual(3)
  expect(times(NOON, NOON + 7 * day, 800).length).toBeGreaterThanOrEqual(7)
})

it.each([
  ["cpu", 0.25, "0.25"],
  ["cpu", 12, "12"],
  ["memory", 16 * 1024 ** 3, "16 Gi"],
  ["memory", 1536 * 1024 ** 2, "1.5 Gi"],
  ["memory", 0, "0"],
  ["nvidia.com/gpu", 8, "8"],
  ["pods", 110, "110"],
])("%s %d is %s", (resource, amount, told) => expect(amountText(resource, amount)).toBe(told))

it("a SKU starts with its most important resource", () =>
  expect(skuText({ cpu: "10", memory: "80G", "nvidia.com/gpu": "1" }, "en")).toBe("1 GPU · 10 CPU · 80G memory"))

it("a sum is written in a readable unit", () => {
  expect(skuText({ cpu: "200m", memory: "1953125Ki" }, "en")).toBe("200m CPU · 1.86 Gi memory")
  expect(skuText({ memory: "64Mi" }, "zh")).toBe("64Mi 内存")
})

it("amounts of several nodes are added up", () => {
  const one = { resource: "cpu", used: 1, allocatable: 4, capacity: 4 }
  expect(sumAmounts([one, one, { ...one, resource: "pods" }])).toEqual([
    { resource: "cpu", used: 2, allocatable: 8, capacity: 8 },
    { ...one, resource: "pods" },
  ])
})

it.each([
  ["Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "Firefox · Linux"],
  ["Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/120.0 Safari/537.36 Edg/120.0", "Edge · Windows"],
  ["Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/120.0 Mobile Safari/537.36", "Chrome · Android"],
  ["curl/8", "curl/8"],
  ["", "–"],
])("%s is %s", (agent, name) => expect(browserName(agent)).toBe(name))

it("times convert to local time and back", () => {
  expect(fromLocalInput(toLocalInput(at(0)))).toBe(at(0))
  expect([toLocalInput(undefined), toLocalInput("x"), fromLocalInput("")]).toEqual(["", "", undefined])
})
