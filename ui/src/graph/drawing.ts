/**
 * A graph while it is edited. Nodes have a key that does not change when they are renamed; edges and sources refer to the
 * key, so a name can be typed letter by letter without losing a reference.
 */
import { mapSources } from "./control-flow"
import type { GraphDocument, GraphNode, Parameter, Position, Source } from "./document"

export interface DrawnNode extends Omit<GraphNode, "position"> {
  key: string
  position: Position
}

export interface DrawnEdge {
  /** Keys of nodes. */
  from: string
  to: string
}

export interface Drawing {
  parameters: Parameter[]
  nodes: DrawnNode[]
  edges: DrawnEdge[]
}

export const NODE_SIZE = { width: 232, height: 60 }

let made = 0

export function newKey(): string {
  made += 1
  return `n${Date.now().toString(36)}${made}`
}

/** Marks a reference to a node that does not exist. Its name is kept so that the user can correct it. */
const LOOSE = "name:"

export function drawn(document: GraphDocument): { drawing: Drawing; placed: boolean } {
  const nodes = (document.nodes ?? []).map((node) => ({ ...node, key: newKey() }))
  const keys = new Map<string, string>()
  for (const node of nodes) if (!keys.has(node.name)) keys.set(node.name, node.key)
  const key = (name: string) => keys.get(name) ?? LOOSE + name
  return {
    placed: nodes.every((node) => node.position !== undefined),
    drawing: {
      parameters: document.parameters ?? [],
      nodes: nodes.map((node, index) => ({
        ...mapSources(node, (from) => rewired(from, key)),
        position: node.position ?? { x: (index % 4) * 280, y: Math.floor(index / 4) * 120 },
      })),
      edges: (document.edges ?? []).map(({ from, to }) => ({ from: key(from), to: key(to) })),
    },
  }
}

/** The document to be stored, without empty values. */
export function written(drawing: Drawing): GraphDocument {
  const names = new Map(drawing.nodes.map((node) => [node.key, node.name]))
  const name = (key: string) => names.get(key) ?? (key.startsWith(LOOSE) ? key.slice(LOOSE.length) : key)
  return {
    format: 1,
    parameters: drawing.parameters.map(withoutEmpty),
    nodes: drawing.nodes.map(({ key: _, ...node }) =>
      withoutEmpty({
        ...mapSources(node, (from) => rewired(from, name)),
        position: { x: Math.round(node.position.x), y: Math.round(node.position.y) },
      }),
    ),
    edges: drawing.edges.map(({ from, to }) => ({ from: name(from), to: name(to) })),
  }
}

function rewired(from: Source, to: (node: string) => string): Source {
  return from.node === undefined ? from : { ...from, node: to(from.node) }
}

function withoutEmpty<T extends object>(value: T): T {
  const kept = Object.entries(value).filter(
    ([, inside]) => inside !== undefined && inside !== "" && !(Array.isArray(inside) && inside.length === 0),
  )
  return { ...("name" in value ? { name: value.name } : {}), ...Object.fromEntries(kept) } as T
}

export function nodeOf(drawing: Drawing, key: string | undefined): DrawnNode | undefined {
  return drawing.nodes.find((node) => node.key === key)
}

export function withNode(drawing: Drawing, key: string, change: Partial<DrawnNode>): Drawing {
  return { ...drawing, nodes: drawing.nodes.map((node) => (node.key === key ? { ...node, ...change } : node)) }
}

/** A name that is not in use: `train`, `train-2`, `train-3` ... */
export function freeName(drawing: Drawing, wanted: string): string {
  const taken = new Set(drawing.nodes.map((node) => node.name))
  if (!taken.has(wanted)) return wanted
  const stem = wanted.replace(/-\d+$/, "")
  for (let number = 2; ; number++) if (!taken.has(`${stem}-${number}`)) return `${stem}-${number}`
}

export function added(drawing: Drawing, node: Omit<DrawnNode, "key">): { drawing: Drawing; key: string } {
  const key = newKey()
  const named = { ...node, key, name: freeName(drawing, node.name) }
  return { drawing: { ...drawing, nodes: [...drawing.nodes, named] }, key }
}

/** Removes nodes and their edges. Inputs, conditions and loops that refer to them lose that source. */
export function without(drawing: Drawing, keys: ReadonlySet<string>): Drawing {
  return {
    ...drawing,
    nodes: drawing.nodes
      .filter((node) => !keys.has(node.key))
      .map((node) => mapSources(node, (from) => (keys.has(from.node ?? "") ? undefined : from))),
    edges: drawing.edges.filter(({ from, to }) => !keys.has(from) && !keys.has(to)),
  }
}

export function withoutEdges(drawing: Drawing, gone: DrawnEdge[]): Drawing {
  const ids = new Set(gone.map(edgeId))
  return { ...drawing, edges: drawing.edges.filter((edge) => !ids.has(edgeId(edge))) }
}

export function edgeId({ from, to }: DrawnEdge): string {
  return `${from}>${to}`
}

/** Adds an edge. Returns the same drawing if the edge exists, connects a node to itself, or would close a cycle. */
export function connected(drawing: Drawing, edge: DrawnEdge): Drawing {
  if (!canConnect(drawing, edge)) return drawing
  return { ...drawing, edges: [...drawing.edges, edge] }
}

export function canConnect(drawing: Drawing, edge: DrawnEdge): boolean {
  return refusalOf(drawing, edge) === undefined
}

export type Refusal = { why: "same" | "exists" } | { why: "cycle"; names: string[] }

/** Why an edge cannot be added: for a cycle, with the names of its nodes, the first one again at the end. */
export function refusalOf(drawing: Drawing, { from, to }: DrawnEdge): Refusal | undefined {
  if (from === to) return { why: "same" }
  if (drawing.edges.some((edge) => edge.from === from && edge.to === to)) return { why: "exists" }
  const way = wayBetween(drawing.edges, to, from)
  if (!way) return undefined
  const names = new Map(drawing.nodes.map((node) => [node.key, node.name]))
  return { why: "cycle", names: [from, ...way].map((key) => names.get(key) ?? key) }
}

/** The keys of the nodes on a shortest way along the edges, with both ends. */
function wayBetween(edges: DrawnEdge[], start: string, end: string): string[] | undefined {
  const next = followers(edges, ({ from, to }) => [from, to])
  const came = new Map<string, string | undefined>([[start, undefined]])
  for (const key of came.keys()) {
    if (key === end) break
    for (const after of next.get(key) ?? []) if (!came.has(after)) came.set(after, key)
  }
  if (!came.has(end)) return undefined
  const way: string[] = []
  for (let key: string | undefined = end; key !== undefined; key = came.get(key)) way.unshift(key)
  return way
}

/** The keys of all nodes that run before this one. */
export function ancestors(drawing: Drawing, key: string): Set<string> {
  return reached(key, drawing.edges, ({ from, to }) => [to, from])
}

/** The keys of all nodes that run after this one. */
export function descendants(drawing: Drawing, key: string): Set<string> {
  return reached(key, drawing.edges, ({ from, to }) => [from, to])
}

function followers(edges: DrawnEdge[], along: (edge: DrawnEdge) => [string, string]): Map<string, string[]> {
  const next = new Map<string, string[]>()
  for (const edge of edges) {
    const [here, there] = along(edge)
    const known = next.get(here)
    if (known) known.push(there)
    else next.set(here, [there])
  }
  return next
}

function reached(key: string, edges: DrawnEdge[], along: (edge: DrawnEdge) => [string, string]): Set<string> {
  const next = followers(edges, along)
  const found = new Set<string>()
  const waiting = [...(next.get(key) ?? [])]
  for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
    if (found.has(each)) continue
    found.add(each)
    waiting.push(...(next.get(each) ?? []))
  }
  return found
}

/** A part of a drawing, to be pasted into this or another one. */
export function part(drawing: Drawing, keys: ReadonlySet<string>): Drawing {
  return {
    parameters: [],
    nodes: drawing.nodes.filter((node) => keys.has(node.key)),
    edges: drawing.edges.filter(({ from, to }) => keys.has(from) && keys.has(to)),
  }
}

/** Pastes a copy with an offset. References between copied nodes refer to the copies. */
export function pasted(drawing: Drawing, copied: Drawing, aside: Position): { drawing: Drawing; keys: Set<string> } {
  const renamed = new Map(copied.nodes.map((node) => [node.key, newKey()]))
  const there = new Set(drawing.nodes.map((node) => node.key))
  let result = drawing
  for (const node of copied.nodes) {
    const copy: DrawnNode = {
      ...mapSources(node, (from) => {
        if (from.node === undefined) return from
        if (renamed.has(from.node)) return { ...from, node: renamed.get(from.node) }
        return there.has(from.node) ? from : undefined
      }),
      key: renamed.get(node.key) as string,
      name: freeName(result, node.name),
      position: { x: node.position.x + aside.x, y: node.position.y + aside.y },
    }
    result = { ...result, nodes: [...result.nodes, copy] }
  }
  const edges = copied.edges.map(({ from, to }) => ({
    from: renamed.get(from) as string,
    to: renamed.get(to) as string,
  }))
  return { drawing: { ...result, edges: [...result.edges, ...edges] }, keys: new Set(renamed.values()) }
}

/** The node and field of a problem: `nodes[3].inputs[0].from` is in the fourth node. */
export function placeOf(drawing: Drawing, path: string): { key?: string; field: string } {
  const node = /^nodes\[(\d+)\]\.?(.*)$/.exec(path)
  if (node) return { key: drawing.nodes[Number(node[1])]?.key, field: node[2] ?? "" }
  const edge = /^edges\[(\d+)\]/.exec(path)
  if (edge) return { key: drawing.edges[Number(edge[1])]?.to, field: "edges" }
  return { field: path }
}
