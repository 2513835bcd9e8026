/** A graph document, as docs/graph.md describes it. The types are generated from docs/graph.schema.json. */
import type { GraphDocument, GraphNode } from "./schema"

export type * from "./schema"

export type NodeKind = NonNullable<GraphNode["kind"]>

export function isGraph(document: GraphDocument): boolean {
  return (document.type ?? "graph") === "graph"
}

export const EMPTY: GraphDocument = { format: 1, parameters: [], nodes: [], edges: [] }
