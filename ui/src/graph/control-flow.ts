/** Conditions and loops of nodes: the references in them, and what they say in one line. */
import type { Comparison, Condition, GraphNode, Loop, Side, Source } from "./document"

type WithSources = Pick<GraphNode, "inputs" | "condition" | "loop">

/**
 * Changes every reference of a node to a parameter or another node: in its inputs, its condition and its loop. A
 * reference that becomes undefined is removed. A node without changes stays the same object.
 */
export function mapSources<N extends WithSources>(node: N, change: (from: Source) => Source | undefined): N {
  const one = <T extends { from?: Source }>(holder: T): T => {
    if (!holder.from) return holder
    const from = change(holder.from)
    if (from === holder.from) return holder
    const { from: _, ...rest } = holder
    return (from ? { ...rest, from } : rest) as T
  }
  const side = (each: Side | undefined) => each && one(each)
  const inputs = node.inputs?.map(one)
  const comparisons = node.condition?.comparisons?.map((each) => {
    const [left, right] = [side(each.left), side(each.right)]
    return left === each.left && right === each.right ? each : { ...each, left, right }
  })
  const loop = node.loop && one(node.loop)
  const same =
    sameItems(inputs, node.inputs) && sameItems(comparisons, node.condition?.comparisons) && loop === node.loop
  if (same) return node
  return {
    ...node,
    ...(inputs ? { inputs } : {}),
    ...(comparisons ? { condition: { ...node.condition, comparisons } } : {}),
    ...(loop ? { loop } : {}),
  }
}

function sameItems<T>(some: readonly T[] | undefined, others: readonly T[] | undefined): boolean {
  return some === others || Boolean(some?.every((each, place) => each === others?.[place]))
}

export const OPERATORS = ["==", "!=", "<", "<=", ">", ">=", "contains"] as const satisfies readonly NonNullable<
  Comparison["operator"]
>[]

/** As it is shown: the symbols of mathematics. */
export const OPERATOR_SIGNS: Record<NonNullable<Comparison["operator"]>, string> = {
  "==": "=",
  "!=": "≠",
  "<": "<",
  "<=": "≤",
  ">": ">",
  ">=": "≥",
  contains: "∋",
}

/** `prepare.accuracy ≥ 0.9 ∧ mode = "full"`; undefined without comparisons. `nameOf` resolves what nodes refer to. */
export function conditionText(condition: Condition | undefined, nameOf = (node: string) => node): string | undefined {
  if (!condition?.comparisons?.length) return undefined
  const terms = condition.comparisons.map(
    ({ left, operator = "==", right }) =>
      `${sideText(left, nameOf)} ${OPERATOR_SIGNS[operator]} ${sideText(right, nameOf)}`,
  )
  return terms.join(condition.match === "any" ? " ∨ " : " ∧ ")
}

/** `red, green, blue`, `prepare.files`, `0 … 9`; undefined without a loop. */
export function loopText(loop: Loop | undefined, nameOf = (node: string) => node): string | undefined {
  if (!loop) return undefined
  if (loop.items) return loop.items.join(", ")
  if (loop.count !== undefined) return `${loop.start ?? 0} … ${(loop.start ?? 0) + loop.count - 1}`
  return loop.from ? sourceText(loop.from, nameOf) : "…"
}

function sideText(side: Side | undefined, nameOf: (node: string) => string): string {
  if (side?.from) return sourceText(side.from, nameOf)
  return side?.value === undefined ? "…" : JSON.stringify(side.value)
}

function sourceText({ parameter, node, output }: Source, nameOf: (node: string) => string): string {
  return parameter ?? `${nameOf(node ?? "…")}.${output ?? "…"}`
}

/** What the card of a node shows of them. */
export function flowMarks(
  { condition, loop, timeout }: Pick<GraphNode, "condition" | "loop" | "timeout">,
  nameOf?: (node: string) => string,
): { condition?: string; over?: string; timeout?: string } {
  const [only, over] = [conditionText(condition, nameOf), loopText(loop, nameOf)]
  return { ...(only ? { condition: only } : {}), ...(over ? { over } : {}), ...(timeout ? { timeout } : {}) }
}
