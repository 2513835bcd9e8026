/** Puts nodes where the graph can be read, in a thread of its own. */
import type ELK from "elkjs/lib/elk-api.js"
import type { ElkNode } from "elkjs/lib/elk-api.js"
import type { Position } from "./document"
import { NODE_SIZE } from "./drawing"
import { quickLayout } from "./quick-layout"

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

/** Where each node goes, by its id. Edges to nodes that are not there are left out. */
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
