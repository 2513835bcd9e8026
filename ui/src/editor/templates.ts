/** What can be dragged onto the canvas. */
import type { Position } from "@/graph/document"
import type { DrawnNode } from "@/graph/drawing"

export const DRAGGED = "application/x-muster-node"

export type Template =
  | { kind: "plain" }
  | { kind: "training" }
  | { kind: "module"; module: string; version: string; inputs: { name: string; description?: string }[] }

export function nodeOfTemplate(template: Template, position: Position): Omit<DrawnNode, "key"> {
  switch (template.kind) {
    case "plain":
      return { name: "step", kind: "plain", command: "", image: "", position }
    case "training":
      return {
        name: "train",
        kind: "training",
        command: "",
        image: "",
        training: {
          kind: "PyTorchJob",
          roles: [
            { name: "Master", replicas: 1 },
            { name: "Worker", replicas: 1 },
          ],
        },
        position,
      }
    case "module":
      return {
        name: template.module,
        kind: "module",
        module: { name: template.module, version: template.version },
        inputs: template.inputs.map(({ name, description }) => ({ name, ...(description ? { description } : {}) })),
        position,
      }
  }
}
