/** The nodes of a run: which one made it fail, and which ones a search or a filter shows. */
import type { RunNode } from "@/api/runs"

type Ended = Pick<RunNode, "name" | "state" | "finished">

/** The node that failed first: it is the cause. A loop fails because one of its iterations did. */
export function failedNode<N extends Ended>(nodes: readonly N[]): N | undefined {
  const failed = nodes.filter((node) => node.state === "failed")
  const loops = new Set(failed.map(({ name }) => /^(.+?)\(\d+:.*\)$/s.exec(name)?.[1]))
  const time = (node: N) => (node.finished ? new Date(node.finished).getTime() : Number.POSITIVE_INFINITY)
  return failed
    .filter(({ name }) => !loops.has(name))
    .reduce<N | undefined>((first, node) => (first && time(first) <= time(node) ? first : node), undefined)
}

export interface NodeFilter {
  q?: string
  failedOnly?: boolean
}

/** The nodes that match; all of them without a filter. */
export function filterNodes<N extends Pick<RunNode, "name" | "state">>(nodes: readonly N[], filter: NodeFilter): N[] {
  const wanted = (filter.q ?? "").trim().toLowerCase()
  return nodes.filter(
    ({ name, state }) => (!filter.failedOnly || state === "failed") && name.toLowerCase().includes(wanted),
  )
}
