/** The nodes that the palette offers. */
import type { Position } from "@/graph/document"
import type { DrawnNode } from "@/graph/drawing"
import { newNode } from "@/graph/node-fields"

export const DRAGGED = "application/x-muster-node"

export type Template =
  | { kind: "plain" }
  | { kind: "training" }
  | { kind: "module"; module: string; version: string; inputs: { name: string; description?: string }[] }

export function nodeOfTemplate(template: Template, position: Position): Omit<DrawnNode, "key"> {
  const node = { ...newNode(template.kind), position }
  if (template.kind !== "module") return node
  return {
    ...node,
    name: template.module,
    module: { name: template.module, version: template.version },
    inputs: template.inputs.map(({ name, description }) => ({ name, ...(description ? { description } : {}) })),
  }
}
