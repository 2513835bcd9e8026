/** Conditions and loops: references follow nodes, and texts are read as they were written. */
import { expect, test } from "vitest"
import { readItems, writtenItems } from "@/editor/node-flow"
import { conditionText, loopText, mapSources } from "@/graph/control-flow"
import { drawn, withNode, without, written } from "@/graph/drawing"
import { loopGraph } from "@/graph/loop-graph"
import { failedNode } from "@/lib/run-nodes"

const from = { node: "a", output: "out" }
const document = {
  format: 1 as const,
  nodes: [
    { name: "a", position: { x: 0, y: 0 } },
    {
      name: "b",
      position: { x: 0, y: 100 },
      condition: { comparisons: [{ left: { from }, operator: ">=" as const, right: { value: "0.9" } }] },
      loop: { from, variable: "x" },
    },
  ],
  edges: [{ from: "a", to: "b" }],
}

test("references in conditions and loops follow a node that is renamed, and go with one that is removed", () => {
  const { drawing } = drawn(document)
  const key = drawing.nodes[0]?.key ?? ""
  const renamed = written(withNode(drawing, key, { name: "first" })).nodes?.[1]
  expect(renamed?.condition?.comparisons?.[0]?.left).toEqual({ from: { node: "first", output: "out" } })
  expect(renamed?.loop).toEqual({ from: { node: "first", output: "out" }, variable: "x" })
  const alone = written(without(drawing, new Set([key]))).nodes?.[0]
  expect(alone?.condition?.comparisons?.[0]?.left).toEqual({})
  expect(alone?.loop).toEqual({ variable: "x" })
  expect(written(drawing).nodes).toEqual(document.nodes)
})

test("a node without changed references stays the same object", () => {
  const node = document.nodes[1] as (typeof document.nodes)[1]
  expect(mapSources(node, (source) => source)).toBe(node)
})

test("a condition and a loop in one line", () => {
  expect(conditionText(document.nodes[1]?.condition)).toBe('a.out ≥ "0.9"')
  expect(conditionText({ comparisons: [] })).toBeUndefined()
  expect(loopText({ items: ["r", "g"] })).toBe("r, g")
  expect(loopText({ count: 3, start: 2 })).toBe("2 … 4")
  expect(loopText({ from: { parameter: "list" } })).toBe("list")
})

test.each([
  [["a", "b c"], "a\nb c"],
  [["two\nlines", "x"], '["two\\nlines","x"]'],
  [["[1]"], '["[1]"]'],
  [["a", ""], '["a",""]'],
])("items %j are typed as %j", (items, typed) => {
  expect(writtenItems(items)).toBe(typed)
  expect(readItems(typed)).toEqual(items)
})

test("iterations are inside of their loop", () => {
  const { scopes } = loopGraph(document, ["a", "b", "b(0:x)", "b(1:y (z))", "bb(0:x)"])
  expect(scopes[""]?.nodes.map(({ key, kind }) => [key, kind])).toEqual([
    ["a", "task"],
    ["b", "loop"],
  ])
  expect(scopes["loop b"]?.nodes.map(({ key }) => key)).toEqual(["(0:x)", "(1:y (z))"])
  expect(scopes[""]?.edges).toEqual([[0, 1]])
})

test("a failed loop is not the cause: its iteration is", () => {
  const failed = { state: "failed" as const, finished: "2026-01-01T00:00:00Z" }
  expect(
    failedNode([
      { name: "b", ...failed },
      { name: "b(1:y)", ...failed },
    ])?.name,
  ).toBe("b(1:y)")
})
