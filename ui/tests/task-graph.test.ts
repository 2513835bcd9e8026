/** Graphs with graphs inside, and the states of Argo's tasks. */
import { describe, expect, it, test } from "vitest"
import { flatten, MOST_ITERATIONS, type Scope } from "@/graph/nested"
import type { NodeState } from "@/graph/node-card"
import { drawnTasks, RunStates, type TaskGraph, type TaskNode, tasksAround } from "@/graph/task-graph"

const task = (key: string, more: Partial<TaskNode> = {}): TaskNode => ({ key, name: key, kind: "task", ...more })

/** a, then a loop over a group of two tasks, then b; in a run, with iterations. */
const GRAPH: TaskGraph = {
  scopes: {
    "": {
      nodes: [task("a"), task("each", { kind: "loop", inside: "loop" }), task("b")],
      edges: [
        [0, 1],
        [1, 2],
      ],
    },
    loop: {
      nodes: [0, 1].map((at) => task(`(${at}:x.y)`, { kind: "group", inside: "template" })),
      edges: [],
    },
    template: { nodes: [task(".p"), task(".q")], edges: [[0, 1]] },
  },
}

const edges = ({ edges }: { edges: { from: string; to: string }[] }) => edges.map(({ from, to }) => `${from} > ${to}`)

describe("a nested graph", () => {
  it("is closed at first", () => {
    const flat = drawnTasks(GRAPH, { opened: new Set() })
    expect(flat.nodes.map(({ id, opened }) => [id, opened])).toEqual([
      ["a", undefined],
      ["each", false],
      ["b", undefined],
    ])
    expect(edges(flat)).toEqual(["a > each", "each > b"])
  })

  it("opens in place: what is inside comes before what follows", () => {
    const flat = drawnTasks(GRAPH, { opened: new Set(["each", "each(1:x.y)"]) })
    expect(edges(flat).sort()).toEqual([
      "a > each",
      "each > each(0:x.y)",
      "each > each(1:x.y)",
      "each(0:x.y) > b",
      "each(1:x.y) > each(1:x.y).p",
      "each(1:x.y).p > each(1:x.y).q",
      "each(1:x.y).q > b",
    ])
  })

  it("knows what is around a node", () => {
    expect(tasksAround(GRAPH, "each(1:x.y).q")).toEqual(["each", "each(1:x.y)"])
    expect(tasksAround(GRAPH, "a")).toEqual([])
    expect(tasksAround(GRAPH, "gone")).toEqual([])
  })

  it("of a template that calls itself is opened as deep as asked", () => {
    const again = task(".again", { kind: "group", inside: "t" })
    const graph: TaskGraph = {
      scopes: { "": { nodes: [task("t", { inside: "t" })], edges: [] }, t: { nodes: [again], edges: [] } },
    }
    const opened = new Set(["t", "t.again"])
    expect(drawnTasks(graph, { opened }).nodes.map(({ id }) => id)).toEqual(["t", "t.again", "t.again.again"])
    expect(tasksAround(graph, "t.again.again.again")).toEqual(["t", "t.again", "t.again.again"])
  })

  it("draws some of many iterations, and says how many are left", () => {
    const nodes = Array.from({ length: 500 }, (_, at) => task(`(${at}:i)`))
    const graph: TaskGraph = {
      scopes: { "": { nodes: [task("each", { kind: "loop", inside: "l" })], edges: [] }, l: { nodes, edges: [] } },
    }
    const states = new RunStates([{ name: "each(400:i)", state: "failed" }], { over: true, succeeded: false })
    const flat = drawnTasks(graph, { opened: new Set(["each"]), selected: "each(450:i)", states })
    const ids = flat.nodes.map(({ id }) => id)
    expect(ids).toContain("each(400:i)")
    expect(ids).toContain("each(450:i)")
    expect(ids).toHaveLength(1 + MOST_ITERATIONS + 1)
    expect(flat.nodes.at(-1)?.more).toBe(500 - MOST_ITERATIONS)
    expect(flat.edges).toHaveLength(MOST_ITERATIONS + 1)
  })

  it("of ten thousand nodes is read in linear time", () => {
    const nodes = Array.from({ length: 10_000 }, (_, at) => task(`n${at}`))
    const scope: Scope<TaskNode> = { nodes, edges: nodes.slice(1).map((_, at) => [at, at + 1]) }
    const flat = flatten(scope, { opened: new Set(), opens: () => false, inside: () => undefined })
    expect([flat.nodes.length, flat.edges.length]).toEqual([10_000, 9_999])
  })
})

test.each<[Partial<Record<string, NodeState>>, boolean, boolean, NodeState]>([
  [{ "g.a": "succeeded", "g.b": "succeeded" }, false, false, "succeeded"],
  [{ "g.a": "succeeded", "g.b": "waiting" }, false, false, "running"],
  [{ "g.a": "waiting", "g.b": "waiting" }, false, false, "waiting"],
  [{ "g.a": "waiting", "g.b": "skipped" }, false, false, "waiting"],
  [{ "g.a": "succeeded", "g.b": "running" }, false, false, "running"],
  [{ "g[0].a": "failed", "g.b": "running" }, false, false, "failed"],
  [{ "g(0).a": "failed", "g(1).a": "succeeded" }, true, true, "succeeded"],
  [{ "g.a": "skipped", "g.b": "skipped" }, true, false, "skipped"],
  [{ "g.a": "succeeded", "g.b": "stopped" }, true, false, "stopped"],
  [{ g: "skipped" }, true, false, "skipped"],
  [{ gone: "succeeded" }, false, false, "waiting"],
  [{ gone: "succeeded" }, true, false, "skipped"],
])("with %j inside, over: %j, succeeded: %j, a node is %s", (nodes, over, succeeded, state) => {
  const told = Object.entries(nodes).map(([name, state]) => ({ name, state: state as NodeState }))
  expect(new RunStates(told, { over, succeeded }).of("g")).toBe(state)
})
