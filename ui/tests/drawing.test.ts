import { describe, expect, it } from "vitest"
import type { GraphDocument } from "@/graph/document"
import {
  ancestors,
  canConnect,
  connected,
  descendants,
  drawn,
  freeName,
  part,
  pasted,
  placeOf,
  refusalOf,
  withNode,
  without,
  written,
} from "@/graph/drawing"

const document: GraphDocument = {
  format: 1,
  parameters: [{ name: "lr", default: "0.1" }],
  nodes: [
    { name: "a", command: "echo", image: "sh", outputs: [{ name: "out", path: "/tmp/out" }], position: { x: 0, y: 0 } },
    { name: "b", inputs: [{ name: "x", from: { node: "a", output: "out" } }], position: { x: 0, y: 100 } },
    { name: "c", inputs: [{ name: "lr", from: { parameter: "lr" } }], position: { x: 0, y: 200 } },
  ],
  edges: [
    { from: "a", to: "b" },
    { from: "b", to: "c" },
  ],
}

const { drawing } = drawn(document)
const [a, b, c] = drawing.nodes.map((node) => node.key) as [string, string, string]

describe("a drawing", () => {
  it("is written back as the same document", () => expect(written(drawing)).toEqual(document))

  it("keeps references when a node is renamed", () => {
    const renamed = written(withNode(drawing, a, { name: "first" }))
    expect(renamed.edges?.[0]).toEqual({ from: "first", to: "b" })
    expect(renamed.nodes?.[1]?.inputs?.[0]?.from).toEqual({ node: "first", output: "out" })
  })

  it("keeps references to unknown nodes so that they can be corrected", () => {
    const loose: GraphDocument = { ...document, edges: [{ from: "gone", to: "b" }] }
    expect(written(drawn(loose).drawing).edges).toEqual(loose.edges)
  })

  it("says whether nodes have positions", () => {
    expect(drawn(document).placed).toBe(true)
    expect(drawn({ format: 1, nodes: [{ name: "a" }] }).placed).toBe(false)
  })

  it("leaves out what is empty, but never a name", () => {
    const empty = withNode(drawing, a, { name: "", command: "", outputs: [] })
    expect(written(empty).nodes?.[0]).toEqual({ name: "", image: "sh", position: { x: 0, y: 0 } })
  })
})

describe("edges", () => {
  it.each([
    ["to itself", a, a, false],
    ["that is there", a, b, false],
    ["that closes a circle", c, a, false],
    ["that is new", a, c, true],
  ])("%s", (_, from, to, can) => {
    expect(canConnect(drawing, { from, to })).toBe(can)
    expect(connected(drawing, { from, to }).edges.length).toBe(can ? 3 : 2)
  })

  it("that are refused say why", () => {
    expect(refusalOf(drawing, { from: a, to: a })).toEqual({ why: "same" })
    expect(refusalOf(drawing, { from: a, to: b })).toEqual({ why: "exists" })
    expect(refusalOf(drawing, { from: c, to: a })).toEqual({ why: "cycle", names: ["c", "a", "b", "c"] })
    expect(refusalOf(drawing, { from: a, to: c })).toBeUndefined()
  })

  it("lead from ancestors", () => {
    expect(ancestors(drawing, c)).toEqual(new Set([a, b]))
    expect(ancestors(drawing, a)).toEqual(new Set())
    expect(descendants(drawing, a)).toEqual(new Set([b, c]))
    expect(descendants(drawing, c)).toEqual(new Set())
  })
})

describe("without nodes", () => {
  it("edges are removed, and inputs lose their source", () => {
    const rest = written(without(drawing, new Set([a])))
    expect(rest.nodes?.map((node) => node.name)).toEqual(["b", "c"])
    expect(rest.edges).toEqual([{ from: "b", to: "c" }])
    expect(rest.nodes?.[0]?.inputs).toEqual([{ name: "x" }])
  })
})

describe("a copy", () => {
  it("refers to its own nodes and gets new names", () => {
    const copied = part(drawing, new Set([a, b]))
    const result = pasted(drawing, copied, { x: 10, y: 10 })
    const nodes = written(result.drawing).nodes ?? []
    expect(nodes.map((node) => node.name)).toEqual(["a", "b", "c", "a-2", "b-2"])
    expect(nodes[4]?.inputs?.[0]?.from?.node).toBe("a-2")
    expect(written(result.drawing).edges?.at(-1)).toEqual({ from: "a-2", to: "b-2" })
    expect(result.keys.size).toBe(2)
  })

  it("of one node keeps inputs from nodes that exist", () => {
    const alone = part(drawing, new Set([b]))
    expect(written(pasted(drawing, alone, { x: 0, y: 0 }).drawing).nodes?.at(-1)?.inputs?.[0]?.from?.node).toBe("a")
    const elsewhere = pasted(drawn({ format: 1 }).drawing, alone, { x: 0, y: 0 })
    expect(written(elsewhere.drawing).nodes?.at(-1)?.inputs).toEqual([{ name: "x" }])
  })
})

it("new names are not in use", () => {
  expect(freeName(drawing, "d")).toBe("d")
  expect(freeName(drawing, "a")).toBe("a-2")
})

it("problems have a node and a field", () => {
  expect(placeOf(drawing, "nodes[1].inputs[0].from")).toEqual({ key: b, field: "inputs[0].from" })
  expect(placeOf(drawing, "edges[1]")).toEqual({ key: c, field: "edges" })
  expect(placeOf(drawing, "parameters[0].name")).toEqual({ field: "parameters[0].name" })
})
