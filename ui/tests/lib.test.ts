import { describe, expect, it } from "vitest"
import { diffLines, hideUnchanged } from "@/components/line-diff"
import { exceedsNodes } from "@/lib/amounts"
import { readPages } from "@/lib/pagination"
import { ago, duration } from "@/lib/times"

describe("lines that changed", () => {
  it.each([
    ["", "", ""],
    ["a", "a", " a"],
    ["a", "b", "-a +b"],
    ["a\nb\nc", "a\nc", " a -b  c"],
    ["a\nc", "a\nb\nc", " a +b  c"],
    ["", "a\nb", "+a +b"],
    ["a\nb\na", "a\na", " a -b  a"],
    ["a\na", "a\na\na", " a  a +a"],
  ])("%j to %j", (before, after, told) => {
    expect(
      diffLines(before, after)
        .map(({ sign, text }) => sign + text)
        .join(" "),
    ).toBe(told)
  })
})

it("texts of any length are compared", () => {
  const many = (word: string) => Array.from({ length: 10_000 }, (_, index) => `${word} ${index}`).join("\n")
  expect(diffLines(many("a"), many("b"))).toHaveLength(20_000)
})

it("unchanged lines are counted", () => {
  const before = Array.from({ length: 20 }, (_, index) => `line ${index}`)
  const after = before.with(10, "another")
  const told = hideUnchanged(diffLines(before.join("\n"), after.join("\n")), 1)
  expect(told.map((line) => (line.sign === "skipped" ? `${line.count} …` : line.sign + line.text))).toEqual([
    "9 …",
    " line 9",
    "-line 10",
    "+another",
    " line 11",
    "8 …",
  ])
})

it.each([
  [0, "0s"],
  [999, "1s"],
  [192_000, "3m12s"],
  [3_600_000, "1h"],
  [90_061_000, "1d1h"],
])("%i ms is %s", (milliseconds, told) => expect(duration(milliseconds)).toBe(told))

it.each([
  ["2026-01-01T00:00:00Z", "en", "just now"],
  ["2026-01-01T00:00:00Z", "zh", "刚刚"],
  ["2025-12-31T23:57:00Z", "en", "3 minutes ago"],
  ["2025-12-31T23:57:00Z", "zh", "3分钟前"],
  ["2025-12-30T23:00:00Z", "en", "yesterday"],
] as const)("%s is %s: %s", (at, language, told) =>
  expect(ago(at, Date.parse("2026-01-01T00:00:00Z"), language)).toBe(told),
)

it("pages know the previous page", () => {
  const first = readPages(undefined)
  expect([first.cursor, first.number, first.previous]).toEqual(["", 0, undefined])
  const second = readPages(first.next("abc"))
  expect([second.cursor, second.number, second.previous]).toEqual(["abc", 1, ""])
  expect(readPages(second.next("def")).previous).toBe("abc")
})

it.each([
  [4, 4, false],
  [5, 4, true],
  [5, 0, false],
])("%i SKUs where %i fit on a node warn: %s", (skus, largest, warns) =>
  expect(exceedsNodes(skus, { largest })).toBe(warns),
)
