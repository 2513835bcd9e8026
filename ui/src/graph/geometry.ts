/** Where things are in a graph, worked out without drawing it. */
import type { Position } from "./document"
import { NODE_SIZE } from "./drawing"

export interface Box {
  x: number
  y: number
  width: number
  height: number
}

interface Placed {
  position: Position
}

/** The visible part of the plane: scaled by zoom, then moved by x and y. */
export type View = readonly [x: number, y: number, zoom: number]

export function boundsOf(nodes: readonly Placed[]): Box {
  if (!nodes.length) return { x: 0, y: 0, ...NODE_SIZE }
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity]
  for (const { position } of nodes) {
    left = Math.min(left, position.x)
    top = Math.min(top, position.y)
    right = Math.max(right, position.x + NODE_SIZE.width)
    bottom = Math.max(bottom, position.y + NODE_SIZE.height)
  }
  return { x: left, y: top, width: right - left, height: bottom - top }
}

export function unionOf(a: Box, b: Box): Box {
  const [x, y] = [Math.min(a.x, b.x), Math.min(a.y, b.y)]
  return {
    x,
    y,
    width: Math.max(a.x + a.width, b.x + b.width) - x,
    height: Math.max(a.y + a.height, b.y + b.height) - y,
  }
}

/** The part of the plane that is visible in a pane of this size. */
export function visibleBox([x, y, zoom]: View, width: number, height: number): Box {
  return { x: -x / zoom, y: -y / zoom, width: width / zoom, height: height / zoom }
}

export function isInside({ position: { x, y } }: Placed, box: Box): boolean {
  return x < box.x + box.width && x + NODE_SIZE.width > box.x && y < box.y + box.height && y + NODE_SIZE.height > box.y
}

/** Whether more than `most` nodes are inside the box. */
export function isCrowded(nodes: readonly Placed[], box: Box, most: number): boolean {
  if (nodes.length <= most) return false
  let count = 0
  for (const node of nodes) if (isInside(node, box) && ++count > most) return true
  return false
}

/** A part of the plane around what is visible. Its places and sizes have steps, so that it rarely changes. */
export function surroundings(view: View, width: number, height: number): Box {
  const box = visibleBox(view, width, height)
  const step = (size: number) => Math.SQRT2 ** Math.ceil(Math.log2(size) * 2)
  const [w, h] = [step(box.width), step(box.height)]
  // What is visible is never wider than a step, so it is in two of them at most.
  const [left, top] = [Math.floor(box.x / w), Math.floor(box.y / h)]
  return { x: left * w, y: top * h, width: 2 * w, height: 2 * h }
}

interface Ends {
  source: string
  target: string
}

/** The nodes in a part of the plane, the edges that may pass through it, and the nodes at their ends. */
export function near<N extends Placed & { id: string }, E extends Ends>(
  nodes: readonly N[],
  edges: readonly E[],
  box: Box,
): { nodes: N[]; edges: E[] } {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const chosen = new Set(nodes.filter((node) => isInside(node, box)))
  const passing = edges.filter(({ source, target }) => {
    const [from, to] = [byId.get(source), byId.get(target)]
    if (!from || !to) return false
    const { x, y } = from.position
    const [dx, dy] = [to.position.x - x, to.position.y - y]
    const isApart =
      Math.max(x, x + dx) + NODE_SIZE.width < box.x ||
      Math.min(x, x + dx) > box.x + box.width ||
      Math.max(y, y + dy) + NODE_SIZE.height < box.y ||
      Math.min(y, y + dy) > box.y + box.height
    if (!isApart) chosen.add(from).add(to)
    return !isApart
  })
  // In their own order, so that what is above stays above.
  return { nodes: nodes.filter((node) => chosen.has(node)), edges: passing }
}

/** The node at a point of the plane, or the nearest within a distance of `around`. */
export function nodeAt<T extends Placed>(nodes: readonly T[], { x, y }: Position, around = 0): T | undefined {
  let best: T | undefined
  let nearest = around
  for (const node of nodes) {
    const aside = Math.max(node.position.x - x, x - node.position.x - NODE_SIZE.width, 0)
    const above = Math.max(node.position.y - y, y - node.position.y - NODE_SIZE.height, 0)
    const distance = Math.hypot(aside, above)
    if (distance > nearest || (best && distance === nearest)) continue
    best = node
    nearest = distance
  }
  return best
}

const GAP = { x: 36, y: 32 }

/** The place nearest to the wanted one where a new node covers no other. */
export function freePlace(nodes: readonly Placed[], wanted: Position): Position {
  const step = { x: NODE_SIZE.width + GAP.x, y: NODE_SIZE.height + GAP.y }
  const isFree = (at: Position) =>
    nodes.every(({ position }) => Math.abs(position.x - at.x) >= step.x || Math.abs(position.y - at.y) >= step.y)
  for (let ring = 0; ; ring++) {
    let best: Position | undefined
    for (let column = -ring; column <= ring; column++)
      for (let row = -ring; row <= ring; row++) {
        if (Math.max(Math.abs(column), Math.abs(row)) !== ring) continue
        const at = { x: wanted.x + column * step.x, y: wanted.y + row * step.y }
        if (isFree(at) && (!best || away(at, wanted) < away(best, wanted))) best = at
      }
    if (best) return best
  }
}

/** Below is better than beside or above: the next node usually follows. */
function away(at: Position, wanted: Position): number {
  return Math.hypot(at.x - wanted.x, at.y - wanted.y) * (at.y > wanted.y ? 1 : at.y < wanted.y ? 1.02 : 1.01)
}
