/** Leads edges around the nodes that are in their way. */
import type { Position } from "./document"
import { NODE_SIZE } from "./drawing"
import type { Box } from "./geometry"

const MARGIN = 14
/** Obstacles within this distance of an edge are looked at. */
const NEARBY = 320
const MOST_OBSTACLES = 40
const BEND_COST = 40

interface End {
  position: Position
}

/**
 * The corners of an edge from the bottom of one node to the top of another that touches none of the others; undefined
 * if the usual curve is free, or if there is no way around.
 */
export function routeAround(from: End, to: End, others: readonly End[]): Position[] | undefined {
  const start = { x: from.position.x + NODE_SIZE.width / 2, y: from.position.y + NODE_SIZE.height }
  const end = { x: to.position.x + NODE_SIZE.width / 2, y: to.position.y }
  const area = around([start, end], NEARBY)
  const boxes = [from, to, ...others].map(({ position }) => ({ ...position, ...NODE_SIZE }))
  const [own, next, ...rest] = boxes as [Box, Box, ...Box[]]
  const inTheWay = rest.filter((box) => meets(box, area))
  if (!inTheWay.length || isFree(curve(start, end), [...inTheWay, ...(end.y < start.y ? [own, next] : [])]))
    return undefined
  return path(start, end, nearest(inTheWay, start, end, [own, next]))
}

/** Whether no part of a line is inside of a box. Its corners are joined by straight lines. */
export function isFree(line: readonly Position[], boxes: readonly Box[]): boolean {
  return line.slice(1).every((b, index) => {
    const a = line[index] as Position
    return boxes.every((box) => !crosses(a, b, box))
  })
}

/** Points on the curve that React Flow draws. */
export function curve(start: Position, end: Position): Position[] {
  const gap = end.y - start.y
  const reach = gap >= 0 ? gap / 2 : 6.25 * Math.sqrt(-gap)
  const [a, b] = [start.y + reach, end.y - reach]
  return Array.from({ length: 17 }, (_, index) => {
    const t = index / 16
    const [p, q, r, s] = [(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t * t, t ** 3]
    return { x: (p + q) * start.x + (r + s) * end.x, y: p * start.y + q * a + r * b + s * end.y }
  })
}

/** The path of an SVG through these points, with round corners. */
export function roundedPath(points: readonly Position[], radius = 10): string {
  const [first, ...rest] = points
  if (!first) return ""
  let drawn = `M${first.x},${first.y}`
  for (const [index, at] of rest.entries()) {
    const [before, after] = [points[index] as Position, rest[index + 1]]
    if (!after) {
      drawn += `L${at.x},${at.y}`
      continue
    }
    const r = Math.min(radius, distance(before, at) / 2, distance(at, after) / 2)
    const [a, b] = [toward(at, before, r), toward(at, after, r)]
    drawn += `L${a.x},${a.y}Q${at.x},${at.y} ${b.x},${b.y}`
  }
  return drawn
}

/** The shortest way along lines beside the boxes, with few corners (Dijkstra's algorithm). */
function path(start: Position, end: Position, boxes: readonly Box[]): Position[] | undefined {
  const out = { x: start.x, y: start.y + MARGIN }
  const into = { x: end.x, y: end.y - MARGIN }
  const sides = boxes.flatMap((box) => [box.x - MARGIN, box.x + box.width + MARGIN])
  const levels = boxes.flatMap((box) => [box.y - MARGIN, box.y + box.height + MARGIN])
  const xs = [...new Set([out.x, into.x, ...sides])].sort((a, b) => a - b)
  const ys = [...new Set([out.y, into.y, ...levels])].sort((a, b) => a - b)
  const count = xs.length * ys.length
  const at = (index: number): Position => ({
    x: xs[index % xs.length] as number,
    y: ys[Math.floor(index / xs.length)] as number,
  })
  const first = ys.indexOf(out.y) * xs.length + xs.indexOf(out.x)
  const last = ys.indexOf(into.y) * xs.length + xs.indexOf(into.x)
  // Each point is reached along a line or along a column: the state is the point and the direction.
  const cost = new Float64Array(count * 2).fill(Number.POSITIVE_INFINITY)
  const came = new Int32Array(count * 2).fill(-1)
  const queue: [number, number][] = [[0, first * 2 + 1]]
  cost[first * 2 + 1] = 0
  for (let next = pop(queue); next; next = pop(queue)) {
    const [spent, state] = next
    if (spent > (cost[state] as number)) continue
    const [index, isDown] = [state >> 1, state & 1]
    if (index === last) return corners(state, came, at, start, end)
    const [column, row] = [index % xs.length, Math.floor(index / xs.length)]
    const steps = [column > 0 && index - 1, column < xs.length - 1 && index + 1].map((to) => [to, 0] as const)
    const falls = [row > 0 && index - xs.length, row < ys.length - 1 && index + xs.length].map((to) => [to, 1] as const)
    for (const [to, direction] of [...steps, ...falls]) {
      if (to === false || boxes.some((box) => crosses(at(index), at(to), box))) continue
      const turn = direction === isDown ? 0 : BEND_COST
      const ending = to === last && direction === 0 ? BEND_COST : 0
      const total = spent + distance(at(index), at(to)) + turn + ending
      const there = to * 2 + direction
      if (total >= (cost[there] as number)) continue
      cost[there] = total
      came[there] = state
      push(queue, [total, there])
    }
  }
  return undefined
}

function corners(
  last: number,
  came: Int32Array,
  at: (index: number) => Position,
  start: Position,
  end: Position,
): Position[] {
  const points = [end]
  for (let state = last; state >= 0; state = came[state] as number) points.push(at(state >> 1))
  points.push(start)
  points.reverse()
  return points.filter((point, index) => {
    const [before, after] = [points[index - 1], points[index + 1]]
    if (!before || !after) return true
    return !(
      (before.x === point.x && point.x === after.x) ||
      (before.y === point.y && point.y === after.y) ||
      (point.x === after.x && point.y === after.y)
    )
  })
}

function nearest(boxes: Box[], start: Position, end: Position, own: Box[]): Box[] {
  const middle = { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 }
  const far = (box: Box) => Math.hypot(box.x + box.width / 2 - middle.x, box.y + box.height / 2 - middle.y)
  return [...own, ...[...boxes].sort((a, b) => far(a) - far(b)).slice(0, MOST_OBSTACLES)]
}

function around(points: Position[], margin: number): Box {
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)]
  const [x, y] = [Math.min(...xs) - margin, Math.min(...ys) - margin]
  return { x, y, width: Math.max(...xs) + margin - x, height: Math.max(...ys) + margin - y }
}

function meets(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

/** Whether a straight line has a point inside of a box; its border does not count. (Liang and Barsky) */
function crosses(a: Position, b: Position, box: Box): boolean {
  let [from, to] = [0, 1]
  const [dx, dy] = [b.x - a.x, b.y - a.y]
  const limits: [number, number][] = [
    [-dx, a.x - box.x],
    [dx, box.x + box.width - a.x],
    [-dy, a.y - box.y],
    [dy, box.y + box.height - a.y],
  ]
  for (const [slope, room] of limits) {
    if (slope === 0) {
      if (room <= 0) return false
    } else if (slope < 0) from = Math.max(from, room / slope)
    else to = Math.min(to, room / slope)
  }
  return to - from > 1e-9
}

function distance(a: Position, b: Position): number {
  return Math.hypot(a.x - b.x, a.y - b.y)
}

function toward(from: Position, to: Position, by: number): Position {
  const far = distance(from, to)
  return far ? { x: from.x + ((to.x - from.x) * by) / far, y: from.y + ((to.y - from.y) * by) / far } : from
}

// A binary heap: the cheapest first.

function push(heap: [number, number][], item: [number, number]): void {
  heap.push(item)
  for (let at = heap.length - 1; at > 0; ) {
    const up = (at - 1) >> 1
    if ((heap[up] as [number, number])[0] <= item[0]) break
    heap[at] = heap[up] as [number, number]
    heap[up] = item
    at = up
  }
}

function pop(heap: [number, number][]): [number, number] | undefined {
  const top = heap[0]
  const item = heap.pop()
  if (!top || !item || !heap.length) return top
  heap[0] = item
  for (let at = 0; ; ) {
    let down = 2 * at + 1
    const right = heap[down + 1]
    if (right && right[0] < (heap[down] as [number, number])[0]) down += 1
    const child = heap[down]
    if (!child || child[0] >= item[0]) break
    heap[at] = child
    heap[down] = item
    at = down
  }
  return top
}
