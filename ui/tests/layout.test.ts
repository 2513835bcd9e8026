import { expect, it } from "vitest"
import { layout, MANY, quickLayout } from "@/graph/layout"

const size = { width: 10, height: 10 }
const gap = { x: 2, y: 2 }

it("puts every node below its parents, without overlaps", () => {
  const ids = Array.from({ length: 1000 }, (_, index) => `n${index}`)
  const edges = ids.slice(10).map((to, index) => ({ from: ids[index] as string, to }))
  const places = quickLayout(ids, edges, size, gap)
  for (const { from, to } of edges) expect(places.get(to)?.y).toBeGreaterThan(places.get(from)?.y as number)
  expect(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size).toBe(1000)
})

it("draws a chain straight and a fork symmetrically", () => {
  const chain = quickLayout(["a", "b"], [{ from: "a", to: "b" }], size, gap)
  expect(chain.get("a")).toEqual({ x: 0, y: 0 })
  expect(chain.get("b")).toEqual({ x: 0, y: 12 })
  const fork = quickLayout(
    ["a", "b", "c"],
    [
      { from: "a", to: "b" },
      { from: "a", to: "c" },
    ],
    size,
    gap,
  )
  expect([fork.get("b")?.x, fork.get("c")?.x]).toEqual([-6, 6])
})

it("accepts cycles and edges to unknown nodes", () => {
  const edges = [
    { from: "a", to: "b" },
    { from: "b", to: "a" },
    { from: "gone", to: "c" },
  ]
  expect([...quickLayout(["a", "b", "c"], edges, size, gap).keys()].sort()).toEqual(["a", "b", "c"])
})

it("places a large graph once for as long as its edges are the same", async () => {
  const ids = Array.from({ length: MANY + 1 }, (_, index) => `n${index}`)
  const edges = ids.slice(1).map((to, index) => ({ from: ids[index] as string, to }))
  const places = await layout(ids, edges)
  expect(await layout(ids, edges)).toBe(places)
  expect(await layout(ids, [...edges])).not.toBe(places)
  expect((await layout([...ids, "more"], edges)).has("more")).toBe(true)
})
