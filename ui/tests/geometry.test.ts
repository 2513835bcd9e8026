import { describe, expect, it } from "vitest"
import { NODE_SIZE } from "@/graph/drawing"
import {
  boundsOf,
  freePlace,
  isCrowded,
  isInside,
  near,
  nodeAt,
  surroundings,
  unionOf,
  visibleBox,
} from "@/graph/geometry"

const node = (x: number, y: number) => ({ position: { x, y } })
const { width, height } = NODE_SIZE

describe("the geometry of a graph", () => {
  it("has a place for every new node", () => {
    const nodes = [node(10, 10)]
    for (let count = 0; count < 40; count++) nodes.push({ position: freePlace(nodes, { x: 0, y: 0 }) })
    const isCovered = nodes.some(({ position: a }, index) =>
      nodes.slice(index + 1).some(({ position: b }) => Math.abs(a.x - b.x) < width && Math.abs(a.y - b.y) < height),
    )
    expect(isCovered).toBe(false)
    expect(freePlace([], { x: 7, y: 8 })).toEqual({ x: 7, y: 8 })
    expect(freePlace([node(0, 0)], { x: 0, y: 0 }).x).toBe(0) // below
  })

  it("has bounds around all its nodes", () => {
    expect(boundsOf([node(-10, 5), node(100, 300)])).toEqual({ x: -10, y: 5, width: 110 + width, height: 295 + height })
    expect(boundsOf([])).toEqual({ x: 0, y: 0, width, height })
    expect(unionOf({ x: 0, y: 0, width: 10, height: 10 }, { x: 5, y: -5, width: 20, height: 5 })).toEqual({
      x: 0,
      y: -5,
      width: 25,
      height: 15,
    })
  })

  it("shows more of the plane at a smaller zoom", () => {
    expect(visibleBox([100, 50, 0.5], 800, 600)).toEqual({ x: -200, y: -100, width: 1600, height: 1200 })
  })

  it("is crowded if too many nodes are in view", () => {
    const nodes = [0, 1, 2, 3].map((row) => node(0, row * 100))
    const view = { x: 0, y: 0, width: 500, height: 201 }
    expect(nodes.map((each) => isInside(each, view))).toEqual([true, true, true, false])
    expect(isCrowded(nodes, view, 2)).toBe(true)
    expect(isCrowded(nodes, view, 3)).toBe(false)
  })

  it("knows the node at a point, or near it", () => {
    const nodes = [node(0, 0), node(0, 100)]
    expect(nodeAt(nodes, { x: 5, y: 5 })).toBe(nodes[0])
    expect(nodeAt(nodes, { x: 5, y: height + 10 })).toBeUndefined()
    expect(nodeAt(nodes, { x: 5, y: 95 }, 20)).toBe(nodes[1])
    expect(nodeAt(nodes, { x: width + 30, y: 0 }, 20)).toBeUndefined()
  })
})

describe("what is near", () => {
  it("the surroundings contain the view, at every place and zoom", () => {
    for (const zoom of [0.3, 0.5, 0.77, 1, 1.9])
      for (const x of [-12345, -1, 0, 333, 98765]) {
        const view = [x, -x / 3, zoom] as const
        const [seen, box] = [visibleBox(view, 900, 640), surroundings(view, 900, 640)]
        expect(box.x).toBeLessThanOrEqual(seen.x)
        expect(box.y).toBeLessThanOrEqual(seen.y)
        expect(box.x + box.width).toBeGreaterThanOrEqual(seen.x + seen.width)
        expect(box.y + box.height).toBeGreaterThanOrEqual(seen.y + seen.height)
      }
  })

  it("they stay the same while the view moves a little", () => {
    expect(surroundings([-100, -100, 1], 900, 640)).toEqual(surroundings([-140, -120, 1.02], 900, 640))
  })

  it("nodes inside, edges that pass, and the nodes at their ends; in their order", () => {
    const node = (id: string, x: number, y: number) => ({ id, position: { x, y } })
    const edge = (source: string, target: string) => ({ source, target })
    const nodes = [node("above", 0, -900), node("in", 0, 0), node("below", 0, 900), node("far", 9000, 9000)]
    const edges = [edge("above", "below"), edge("in", "below"), edge("below", "far"), edge("in", "nowhere")]
    const found = near(nodes, edges, { x: -100, y: -100, width: 500, height: 500 })
    expect(found.nodes.map(({ id }) => id)).toEqual(["above", "in", "below"])
    expect(found.edges).toEqual([edge("above", "below"), edge("in", "below")])
  })
})
