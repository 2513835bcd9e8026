import { describe, expect, it } from "vitest"
import { lineDiff } from "@/lib/line-diff"
import { pieces } from "@/lib/pieces"
import { ago, duration } from "@/lib/times"

describe("lines that changed", () => {
  it.each([
    ["", "", ""],
    ["a", "a", " a"],
    ["a", "b", "-a +b"],
    ["a\nb\nc", "a\nc", " a -b  c"],
    ["a\nc", "a\nb\nc", " a +b  c"],
    ["", "a\nb", "+a +b"],
  ])("%j to %j", (before, after, told) => {
    expect(lineDiff(before, after).map(({ sign, text }) => sign + text).join(" ")).toBe(told)
  })
})

it.each([
  [0, "0s"],
  [999, "1s"],
  [192_000, "3m12s"],
  [3_600_000, "1h"],
  [90_061_000, "1d1h"],
])("%i ms is %s", (milliseconds, told) => expect(duration(milliseconds)).toBe(told))

it.each([
  ["2026-01-01T00:00:00Z", "en", "now"],
  ["2025-12-31T23:57:00Z", "en", "3 minutes ago"],
  ["2025-12-31T23:57:00Z", "zh", "3分钟前"],
  ["2025-12-30T23:00:00Z", "en", "yesterday"],
] as const)("%s is %s: %s", (at, language, told) => expect(ago(at, Date.parse("2026-01-01T00:00:00Z"), language)).toBe(told))

it("pages know the way back", () => {
  const first = pieces(undefined)
  expect([first.cursor, first.number, first.previous]).toEqual(["", 0, undefined])
  const second = pieces(first.next("abc"))
  expect([second.cursor, second.number, second.previous]).toEqual(["abc", 1, ""])
  expect(pieces(second.next("def")).previous).toBe("abc")
})
