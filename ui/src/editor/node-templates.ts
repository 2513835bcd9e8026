/** The nodes that the palette offers. */
import type { Position } from "@/graph/document"
import type { DrawnNode } from "@/graph/drawing"
import { newNode } from "@/graph/node-fields"

export const DRAGGED = "application/x-muster-node"

export type Template =
  | { kind: "plain" }
  | { kind: "training" }
  | { kind: "module"; module: string; version: string; inputs: { name: string; description?: string }[] }

/** A training node starts as a compute task, on the first virtual cluster that the user may use. */
export function nodeOfTemplate(
  template: Template,
  position: Position,
  clusters: readonly { name: string; usable: boolean }[] = [],
): Omit<DrawnNode, "key"> {
  const node: Omit<DrawnNode, "key"> = { ...newNode(template.kind), position }
  const cluster = clusters.find(({ usable }) => usable)
  if (template.kind === "training" && cluster) node.task = { type: "compute", cluster: cluster.name, skus: 1 }
  if (template.kind !== "module") return node
  return {
    ...node,
    name: template.module,
    module: { name: template.module, version: template.version },
    inputs: template.inputs.map(({ name, description }) => ({ name, ...(description ? { description } : {}) })),
  }
}
