/** Places the nodes of a graph: with elk, or with a quick layout of our own for very large graphs. */

import type ELK from "elkjs/lib/elk-api.js"
import type { ElkNode } from "elkjs/lib/elk-api.js"
import type { Position } from "./document"
import { NODE_SIZE } from "./drawing"

const ROUNDS = 4

export function quickLayout(
  ids: string[],
  edges: { from: string; to: string }[],
  size: { width: number; height: number },
  gap = { x: 36, y: 56 },
): Map<string, Position> {
  const parents = new Map<string, string[]>(ids.map((id) => [id, []]))
  const children = new Map<string, string[]>(ids.map((id) => [id, []]))
  for (const { from, to } of edges) {
    if (from === to || !parents.has(from) || !parents.has(to)) continue
    parents.get(to)?.push(from)
    children.get(from)?.push(to)
  }
  const rows = layers(ids, parents, children)
  const place = new Map<string, number>()
  const number = (row: string[]) => {
    for (const [index, id] of row.entries()) place.set(id, index - (row.length - 1) / 2)
  }
  rows.forEach(number)
  const settle = (row: string[], near: Map<string, string[]>) => {
    const wanted = new Map(row.map((id) => [id, middle(near.get(id) ?? [], place) ?? (place.get(id) as number)]))
    row.sort((a, b) => (wanted.get(a) as number) - (wanted.get(b) as number))
    number(row)
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const row of rows) settle(row, parents)
    if (round < ROUNDS - 1) for (const row of [...rows].reverse()) settle(row, children)
  }
  const found = new Map<string, Position>()
  rows.forEach((row, y) => {
    for (const id of row)
      found.set(id, { x: (place.get(id) as number) * (size.width + gap.x), y: y * (size.height + gap.y) })
  })
  return found
}

/** Puts each node below all of its parents; nodes in a cycle come last. */
function layers(ids: string[], parents: Map<string, string[]>, children: Map<string, string[]>): string[][] {
  const left = new Map(ids.map((id) => [id, parents.get(id)?.length ?? 0]))
  const layer = new Map<string, number>()
  const ready = ids.filter((id) => left.get(id) === 0)
  for (const id of ready) {
    layer.set(id, Math.max(-1, ...(parents.get(id) ?? []).map((parent) => layer.get(parent) ?? -1)) + 1)
    for (const child of children.get(id) ?? []) {
      left.set(child, (left.get(child) ?? 0) - 1)
      if (left.get(child) === 0) ready.push(child)
    }
  }
  const last = Math.max(-1, ...layer.values()) + 1
  const rows: string[][] = []
  for (const id of ids) {
    const row = layer.get(id) ?? last
    rows[row] ??= []
    rows[row].push(id)
  }
  return rows
}

function middle(near: string[], place: Map<string, number>): number | undefined {
  if (!near.length) return undefined
  return near.reduce((sum, id) => sum + (place.get(id) ?? 0), 0) / near.length
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

const MOST = 300

/** The position of each node by its id. Edges to unknown nodes are ignored. */
export async function layout(
  ids: string[],
  edges: { from: string; to: string }[],
  size: { width: number; height: number } = NODE_SIZE,
): Promise<Map<string, Position>> {
  const there = new Set(ids)
  if (ids.length > MOST) return quickLayout(ids, edges, size)
  const graph: ElkNode = {
    id: "root",
    layoutOptions: OPTIONS,
    children: ids.map((id) => ({ id, ...size })),
    edges: edges
      .filter(({ from, to }) => there.has(from) && there.has(to) && from !== to)
      .map(({ from, to }, index) => ({ id: `e${index}`, sources: [from], targets: [to] })),
  }
  const placed = await (await elk()).layout(graph)
  return new Map((placed.children ?? []).map((child) => [child.id, { x: child.x ?? 0, y: child.y ?? 0 }]))
}
