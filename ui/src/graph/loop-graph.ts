/** The graph of a run with loops: a document whose loops have their iterations inside. */
import { flowMarks } from "./control-flow"
import type { GraphDocument, Position } from "./document"
import type { Scope } from "./nested"
import type { TaskGraph, TaskNode } from "./task-graph"

export function hasLoops(document: GraphDocument): boolean {
  return Boolean(document.nodes?.some(({ loop }) => loop))
}

/** `names`: those of the nodes of the run, in their order. An iteration of `train` is called `train(0:red)`. */
export function loopGraph(document: GraphDocument, names: readonly string[]): TaskGraph {
  const nodes = document.nodes ?? []
  const places = new Map(nodes.map((node, place) => [node.name, place]))
  const edges = (document.edges ?? []).flatMap(({ from, to }): [number, number][] => {
    const [before, after] = [places.get(from), places.get(to)]
    return before === undefined || after === undefined ? [] : [[before, after]]
  })
  const scopes: Record<string, Scope<TaskNode>> = {}
  const drawn = nodes.map((node): TaskNode => {
    const shared = { key: node.name, name: node.name, type: node.kind ?? "plain" }
    const { condition, over } = flowMarks(node)
    if (!node.loop) return { ...shared, kind: "task", condition }
    const inside = `loop ${node.name}`
    const iterations = iterationsOf(node.name, names).map((name) => name.slice(node.name.length))
    scopes[inside] = {
      nodes: iterations.map((key) => ({ key, name: key.slice(1, -1), kind: "task", type: shared.type })),
      edges: [],
    }
    return { ...shared, kind: "loop", condition, over, inside }
  })
  scopes[""] = { nodes: drawn, edges }
  return { scopes }
}

/** Where the nodes of the document were drawn; undefined if one has no place. */
export function placesOf(document: GraphDocument): ReadonlyMap<string, Position> | undefined {
  const places = new Map<string, Position>()
  for (const { name, position } of document.nodes ?? []) {
    if (!position) return undefined
    places.set(name, position)
  }
  return places
}

export function iterationsOf(loop: string, names: readonly string[]): string[] {
  return names.filter((name) => name.startsWith(`${loop}(`) && /^\(\d+:.*\)$/s.test(name.slice(loop.length)))
}
