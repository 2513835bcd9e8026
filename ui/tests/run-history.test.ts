import { expect, test } from "vitest"
import { heights, lasted, medianDuration, successRate } from "@/lib/run-history"
import { addTag, isTag } from "@/lib/tags"

const at = (seconds: number) => new Date(seconds * 1000).toISOString()
const run = (state: string, started?: number, finished?: number) => ({
  state,
  started: started === undefined ? null : at(started),
  finished: finished === undefined ? null : at(finished),
})

test("the duration of a run", () => {
  expect(lasted(run("waiting"), 0)).toBeUndefined()
  expect(lasted(run("succeeded", 1, 4), 99_000)).toBe(3000)
  expect(lasted(run("running", 1), 5000)).toBe(4000)
  expect(lasted(run("running", 9), 5000)).toBe(0)
})

test("the longest run is the highest bar, and a short one can be seen", () => {
  expect(heights([run("succeeded", 0, 10), run("failed", 0, 5), run("waiting")], 0)).toEqual([1, 0.5, 0.12])
  expect(heights([], 0)).toEqual([])
})

test("the rate counts what succeeded or failed, the median what succeeded", () => {
  const all = [
    run("succeeded", 0, 2),
    run("succeeded", 0, 6),
    run("failed", 0, 90),
    run("stopped", 0, 1),
    run("running", 0),
  ]
  expect(successRate(all)).toBe(67)
  expect(medianDuration(all)).toBe(4000)
  expect(medianDuration([run("succeeded", 0, 3)])).toBe(3000)
  expect([successRate([run("running", 0)]), medianDuration([])]).toEqual([undefined, undefined])
})

test.each([
  ["baseline", true],
  ["data=june", true],
  ["数据=六月", true],
  ["a/b.c-d_e=x = y", true],
  ["", false],
  ["a b", false],
  ["=x", false],
  ["k=", false],
  ["-k", false],
  ["k-", false],
])("the tag %s: %s", (text, valid) => expect(isTag(text)).toBe(valid))

test("a tag replaces the one with the same key", () => {
  expect(addTag(["a", "data=may"], "data=june")).toEqual(["a", "data=june"])
  expect(addTag(["a"], "b")).toEqual(["a", "b"])
})
