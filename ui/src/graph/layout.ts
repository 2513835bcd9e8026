/** Places the nodes of a graph: with elk, or with a quick layout of our own for very large graphs. */

import type ELK from "elkjs/lib/elk-api.js"
import type { ElkNode } from "elkjs/lib/elk-api.js"
import type { Position } from "./document"
import { NODE_SIZE } from "./drawing"

const ROUNDS = 4

/** Nodes are numbers in it: with maps of ids, 10,000 nodes took a third of the first paint. */
export function quickLayout(
  ids: string[],
  edges: { from: string; to: string }[],
  size: { width: number; height: number },
  gap = { x: 36, y: 56 },
): Map<string, Position> {
  const numbers = new Map(ids.map((id, index) => [id, index]))
  const parents: number[][] = ids.map(() => [])
  const children: number[][] = ids.map(() => [])
  for (const edge of edges) {
    const [from, to] = [numbers.get(edge.from), numbers.get(edge.to)]
    if (from === undefined || to === undefined || from === to) continue
    parents[to]?.push(from)
    children[from]?.push(to)
  }
  const rows = layers(parents, children)
  const place = new Float64Array(ids.length)
  const wanted = new Float64Array(ids.length)
  const number = (row: number[]) => {
    for (let index = 0; index < row.length; index++) place[row[index] as number] = index - (row.length - 1) / 2
  }
  rows.forEach(number)
  const settle = (row: number[], near: number[][]) => {
    for (const node of row) wanted[node] = middle(near[node] as number[], place) ?? (place[node] as number)
    row.sort((a, b) => (wanted[a] as number) - (wanted[b] as number))
    number(row)
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const row of rows) settle(row, parents)
    if (round < ROUNDS - 1) for (let y = rows.length - 1; y >= 0; y--) settle(rows[y] as number[], children)
  }
  const found = new Map<string, Position>()
  for (const [y, row] of rows.entries())
    for (const node of row)
      found.set(ids[node] as string, {
        x: (place[node] as number) * (size.width + gap.x),
        y: y * (size.height + gap.y),
      })
  return found
}

/** Puts each node below all of its parents; nodes in a cycle come last. */
function layers(parents: number[][], children: number[][]): number[][] {
  const left = parents.map((all) => all.length)
  const layer = new Int32Array(parents.length).fill(-1)
  const ready = left.flatMap((count, node) => (count === 0 ? [node] : []))
  let last = 0
  for (const node of ready) {
    let above = -1
    for (const parent of parents[node] as number[]) above = Math.max(above, layer[parent] as number)
    layer[node] = above + 1
    last = Math.max(last, above + 2)
    for (const child of children[node] as number[]) {
      left[child] = (left[child] as number) - 1
      if (left[child] === 0) ready.push(child)
    }
  }
  const rows: number[][] = []
  for (let node = 0; node < parents.length; node++) {
    const at = layer[node] as number
    const row = at < 0 ? last : at
    rows[row] ??= []
    rows[row].push(node)
  }
  return rows
}

function middle(near: number[], place: Float64Array): number | undefined {
  if (!near.length) return undefined
  let sum = 0
  for (const node of near) sum += place[node] as number
  return sum / near.length
}

let loaded: Promise<InstanceType<typeof ELK>> | undefined

async function elk(): Promise<InstanceType<typeof ELK>> {
  loaded ??= (async () => {
    const [{ default: Elk }, { default: workerUrl }] = await Promise.all([
      import("elkjs/lib/elk-api.js"),
      import("elkjs/lib/elk-worker.min.js?url"),
    ])
    return new Elk({ workerFactory: () => new Worker(workerUrl) })
  })()
  return loaded
}

const OPTIONS: Record<string, string> = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.layered.spacing.nodeNodeBetweenLayers": "56",
  "elk.spacing.nodeNode": "36",
  "elk.spacing.componentComponent": "48",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
}

/** If there are more nodes than this, the quick layout is used. */
export const MANY = 300

/** The places of large graphs by their edges, for as long as these are in use. */
const placed = new WeakMap<readonly object[], Map<string, Position>>()

/** The position of each node by its id. Edges to unknown nodes are ignored. */
export async function layout(
  ids: string[],
  edges: { from: string; to: string }[],
  size: { width: number; height: number } = NODE_SIZE,
): Promise<Map<string, Position>> {
  const there = new Set(ids)
  if (ids.length > MANY) {
    const known = placed.get(edges)
    const places = known?.size === ids.length ? known : quickLayout(ids, edges, size)
    placed.set(edges, places)
    return places
  }
  const graph: ElkNode = {
    id: "root",
    layoutOptions: OPTIONS,
    children: ids.map((id) => ({ id, ...size })),
    edges: edges
      .filter(({ from, to }) => there.has(from) && there.has(to) && from !== to)
      .map(({ from, to }, index) => ({ id: `e${index}`, sources: [from], targets: [to] })),
  }
  const arranged = await (await elk()).layout(graph)
  return new Map((arranged.children ?? []).map((child) => [child.id, { x: child.x ?? 0, y: child.y ?? 0 }]))
}
