/**
 * Graphs with graphs inside: loops, nested templates, sub-pipelines. What is inside an opened node follows it in place,
 * and comes before what follows the node.
 */

export interface Scope<N> {
  nodes: readonly N[]
  /** Between nodes, by their places in the list. */
  edges: readonly (readonly [number, number])[]
  /** They are iterations of a loop: only some of them are drawn. */
  isLoop?: boolean
}

export interface FlatNode<N> {
  /** The keys of the nodes around it and its own, one after the other. */
  id: string
  /** Undefined for the node that stands for iterations that are not drawn. */
  node?: N
  /** Whether what is inside of it is shown; undefined if nothing is. */
  opened?: boolean
  /** The number of iterations that are not drawn. */
  more?: number
}

export interface FlatGraph<N> {
  nodes: FlatNode<N>[]
  edges: { from: string; to: string }[]
}

export interface Nesting<N> {
  /** The ids of the nodes that are opened. */
  opened: ReadonlySet<string>
  /** The id of the node that is selected: its iteration is always drawn. */
  selected?: string
  /** Whether it has nodes inside. */
  opens: (node: N) => boolean
  inside: (node: N) => Scope<N> | undefined
  /** Which iterations are drawn: those with the smallest number. */
  urgency?: (node: N, id: string) => number
  /** Whether it stands beside the flow, as an artifact does. What is next follows the node that made it. */
  isAside?: (node: N) => boolean
}

/** The number of iterations of a loop that are drawn: those that are opened, failed or run, then the first ones. */
export const MOST_ITERATIONS = 10

interface Keyed {
  key: string
}

export function flatten<N extends Keyed>(root: Scope<N>, nesting: Nesting<N>): FlatGraph<N> {
  const builder = new Flattener(nesting)
  builder.add(root, "")
  return { nodes: builder.nodes, edges: [...builder.edges.values()] }
}

/** The ids of the nodes that have to be opened so that this one is drawn. */
export function idsAround<N extends Keyed>(
  root: Scope<N>,
  id: string,
  nesting: Pick<Nesting<N>, "opens" | "inside">,
): string[] {
  const search = (scope: Scope<N>, prefix: string): string[] | undefined => {
    for (const node of scope.nodes) {
      const whole = prefix + node.key
      if (whole === id) return []
      const inside = id.startsWith(whole) && nesting.opens(node) ? nesting.inside(node) : undefined
      const found = inside && search(inside, whole)
      if (found) return [whole, ...found]
    }
    return undefined
  }
  return search(root, "") ?? []
}

class Flattener<N extends Keyed> {
  readonly nodes: FlatNode<N>[] = []
  readonly edges = new Map<string, { from: string; to: string }>()

  constructor(private readonly nesting: Nesting<N>) {}

  /** Adds the nodes of a scope. Returns the ids of the first and of the last ones. */
  add(scope: Scope<N>, prefix: string): { first: string[]; last: string[] } {
    const drawn = scope.isLoop ? this.drawnIterations(scope, prefix) : undefined
    const ends: string[][] = []
    for (const [place, node] of scope.nodes.entries())
      ends.push(!drawn || drawn.has(place) ? this.addNode(node, prefix) : [])
    const followed = new Array<boolean>(scope.nodes.length).fill(false)
    const follows = new Array<boolean>(scope.nodes.length).fill(false)
    for (const [from, to] of scope.edges) {
      const target = scope.nodes[to]
      if (!target || !ends[to]?.length) continue
      for (const id of ends[from] ?? []) this.connect(id, prefix + target.key)
      follows[to] = true
      followed[from] = true
    }
    this.releaseProducers(scope, followed)
    const isDrawn = (place: number) => Boolean(ends[place]?.length)
    const first = scope.nodes.filter((_, place) => isDrawn(place) && !follows[place]).map(({ key }) => prefix + key)
    const last = scope.nodes.flatMap((_, place) => (followed[place] ? [] : (ends[place] ?? [])))
    const hidden = drawn ? scope.nodes.length - drawn.size : 0
    if (hidden > 0) {
      const id = `${prefix}/more`
      this.nodes.push({ id, more: hidden })
      first.push(id)
      last.push(id)
    }
    return { first, last }
  }

  /** Returns the ids of what the next nodes follow. */
  private addNode(node: N, prefix: string): string[] {
    const id = prefix + node.key
    const opened = this.nesting.opens(node) ? this.nesting.opened.has(id) : undefined
    this.nodes.push({ id, node, ...(opened === undefined ? {} : { opened }) })
    const scope = opened ? this.nesting.inside(node) : undefined
    if (!scope) return [id]
    const { first, last } = this.add(scope, id)
    for (const each of first) this.connect(id, each)
    return last.length ? last : [id]
  }

  /** An artifact that no node reads does not count as what follows its producer, nor as the end of anything. */
  private releaseProducers(scope: Scope<N>, followed: boolean[]): void {
    const { isAside } = this.nesting
    if (!isAside) return
    const unread = scope.nodes.map((node, place) => isAside(node) && !followed[place])
    const after = new Map<number, boolean>()
    for (const [from, to] of scope.edges) after.set(from, (after.get(from) ?? true) && Boolean(unread[to]))
    for (const [from, onlyUnread] of after) if (onlyUnread) followed[from] = false
    for (const [place, is] of unread.entries()) if (is) followed[place] = true
  }

  private drawnIterations(scope: Scope<N>, prefix: string): Set<number> | undefined {
    if (scope.nodes.length <= MOST_ITERATIONS) return undefined
    const { opened, selected = "", urgency } = this.nesting
    const rank = scope.nodes.map((node) => {
      const id = prefix + node.key
      if (selected.startsWith(id) && /^([./([]|$)/.test(selected.slice(id.length))) return -2
      return opened.has(id) ? -1 : (urgency?.(node, id) ?? 0)
    })
    const places = scope.nodes.map((_, place) => place)
    places.sort((a, b) => (rank[a] as number) - (rank[b] as number) || a - b)
    return new Set(places.slice(0, MOST_ITERATIONS))
  }

  private connect(from: string, to: string): void {
    this.edges.set(`${from}>${to}`, { from, to })
  }
}
