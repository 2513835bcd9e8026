/** Edges lead around nodes. */
import { expect, test } from "vitest"
import { NODE_SIZE } from "@/graph/drawing"
import { curve, isFree, roundedPath, routeAround } from "@/graph/routing"

const at = (x: number, y: number) => ({ position: { x, y } })
const box = ({ position }: ReturnType<typeof at>) => ({ ...position, ...NODE_SIZE })

test("an edge whose curve is free stays a curve", () => {
  expect(routeAround(at(0, 0), at(0, 200), [at(400, 100), at(-400, 100)])).toBeUndefined()
})

test.each([
  ["one node in between", at(0, 0), at(0, 240), [at(0, 120)]],
  ["a row of nodes", at(0, 0), at(0, 240), [at(-268, 120), at(0, 120), at(268, 120)]],
  ["a column of nodes", at(0, 0), at(0, 600), [at(0, 120), at(10, 240), at(-10, 360), at(0, 480)]],
  ["a target above", at(0, 400), at(0, 0), [at(0, 200)]],
  ["a curve that touches a corner", at(0, 0), at(300, 240), [at(100, 110)]],
])("%s: around it", (_, from, to, others) => {
  const points = routeAround(from, to, others)
  expect(points).toBeDefined()
  expect(isFree(points ?? [], [...others, from, to].map(box))).toBe(true)
  expect(points?.[0]).toEqual({ x: from.position.x + NODE_SIZE.width / 2, y: from.position.y + NODE_SIZE.height })
  expect(points?.at(-1)).toEqual({ x: to.position.x + NODE_SIZE.width / 2, y: to.position.y })
})

test("random graphs: no routed edge touches a node", () => {
  let seed = 7
  const random = () => {
    seed = (seed * 16807) % 2147483647
    return seed / 2147483647
  }
  for (let round = 0; round < 60; round++) {
    const slots = Array.from({ length: 30 }, (_, index) => index).sort(() => random() - 0.5)
    const nodes = slots.slice(0, 15).map((slot) => at((slot % 5) * 270 + random() * 20, Math.floor(slot / 5) * 110))
    const [from, to, ...others] = nodes as [(typeof nodes)[0], (typeof nodes)[0]]
    const points = routeAround(from, to, others)
    const start = { x: from.position.x + NODE_SIZE.width / 2, y: from.position.y + NODE_SIZE.height }
    const end = { x: to.position.x + NODE_SIZE.width / 2, y: to.position.y }
    expect(isFree(points ?? curve(start, end), others.map(box))).toBe(true)
  }
})

test("corners are round", () => {
  const path = roundedPath([
    { x: 0, y: 0 },
    { x: 0, y: 100 },
    { x: 50, y: 100 },
  ])
  expect(path).toBe("M0,0L0,90Q0,100 10,100L50,100")
})
