/** The graph of an Argo Workflow: a version, or a run that is updated live. Groups and loops are opened in place. */
import { useCallback, useMemo } from "react"
import { StateBadge } from "@/components/badge"
import { taskTexts } from "@/i18n/tasks"
import { useTexts } from "@/i18n/translate"
import type { GraphDocument, Position } from "./document"
import { GraphView } from "./graph-view"
import { layout, MANY } from "./layout"
import { type CardData, ToggleNode, useOpened } from "./node-card"
import { drawnTasks, type RunStates, type TaskGraph, type TaskNode, tasksAround } from "./task-graph"

interface RunNodes {
  states: RunStates
  /** The number of attempts of a node. */
  attempts: ReadonlyMap<string, number>
}

interface Props {
  graph: TaskGraph
  run?: RunNodes
  selected?: string
  select: (id: string | undefined) => void
  /** The nodes that a search has found; undefined without a search. */
  found?: ReadonlySet<string>
  /** Where nodes are drawn as long as none is opened; else they are arranged. */
  places?: ReadonlyMap<string, Position>
}

/** Places the nodes of a large graph before it is drawn. */
export function arrange(graph: TaskGraph): void {
  const { nodes, edges } = drawnTasks(graph, { opened: new Set() })
  if (nodes.length > MANY)
    void layout(
      nodes.map(({ id }) => id),
      edges,
    )
}

export function WorkflowGraph({ graph, run, selected, select, found, places }: Props) {
  const w = useTexts(taskTexts)
  const around = useMemo(() => (selected ? tasksAround(graph, selected) : []), [graph, selected])
  const [opened, toggle] = useOpened(around)
  const states = run?.states
  const flat = useMemo(() => drawnTasks(graph, { opened, selected, states }), [graph, opened, selected, states])
  const byId = useMemo(() => new Map(flat.nodes.map((each) => [each.id, each])), [flat])
  const shape = useMemo(() => JSON.stringify([flat.nodes.map(({ id }) => id), flat.edges]), [flat])
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` is all that the layout depends on.
  const document = useMemo(
    (): GraphDocument => ({
      format: 1,
      nodes: flat.nodes.map(({ id }) => ({ name: id, position: places?.get(id) })),
      edges: flat.edges,
    }),
    [shape, places],
  )
  const hits = useMemo(() => found && [...found], [found])
  const extra = useCallback(
    (id: string): Partial<CardData> => {
      const drawn = byId.get(id)
      if (!drawn) return {}
      if (!drawn.node) return { name: `+${drawn.more}`, kind: "more", subtitle: w("more") }
      const { node } = drawn
      const inside = run?.states.inside(id)
      const isHit = hits?.some((name) => name === id || (drawn.opened === false && isInside(name, id)))
      return {
        name: node.name,
        kind: cardKind(node),
        opened: drawn.opened,
        condition: node.condition,
        subtitle: describeTask(node, w),
        found: isHit,
        ...(run && node.kind !== "join"
          ? {
              state: run.states.of(id),
              stateText: [
                w(run.states.of(id)),
                inside && drawn.opened !== undefined && w("doneOf", { done: inside.done, n: inside.all }),
                inside && inside.failed > 0 && w("failedCount", { n: inside.failed }),
              ]
                .filter(Boolean)
                .join(" · "),
              retried: Math.max(0, (run.attempts.get(id) ?? 0) - 1),
            }
          : {}),
      }
    },
    [byId, run, hits, w],
  )
  return (
    <ToggleNode value={toggle}>
      <GraphView
        document={document}
        selected={selected}
        onSelect={(id) => (id === undefined || byId.get(id)?.node ? select(id) : undefined)}
        extra={extra}
        center={Boolean(found)}
        arranged={!places}
      />
    </ToggleNode>
  )
}

function isInside(name: string, id: string): boolean {
  return name.startsWith(id) && /^[.[(]/.test(name.slice(id.length))
}

function cardKind({ kind, hook, type }: TaskNode): CardData["kind"] {
  if (kind === "loop" || kind === "join" || kind === "retry") return kind
  if (hook) return "hook"
  if (kind === "group") return "pipeline"
  if (type === "plain" || type === "module" || type === "training") return type
  return type === "suspend" ? "suspend" : "task"
}

type Words = (key: keyof typeof taskTexts, args?: Record<string, string | number>) => string

const TYPES: Record<string, keyof typeof taskTexts> = {
  container: "container",
  script: "script",
  resource: "resource",
  suspend: "suspend",
  http: "http",
  plugin: "plugin",
  data: "data",
  dag: "dag",
  steps: "steps",
  containerSet: "containerSet",
}

/** One line about a task: what it is, and from which template. */
export function describeTask(node: TaskNode, w: Words): string {
  if (node.kind === "join") return ""
  const type = TYPES[node.type ?? ""]
  return [
    node.hook && (node.hook === "exit" ? w("exitHandler") : w("hook", { event: node.hook })),
    node.kind === "loop" && (node.over ? w("loopOver", { over: node.over }) : w("loop")),
    node.kind === "retry" && w("attempts"),
    type ? w(type) : node.template?.includes("/") && w("elsewhere"),
    node.template && node.template !== node.name && node.template,
  ]
    .filter(Boolean)
    .join(" · ")
}

/** What is known of a task that has no log or outputs of its own: one of a version, or one with others inside. */
export function TaskDetails({ graph, id, run }: { graph: TaskGraph; id: string; run?: RunNodes }) {
  const w = useTexts(taskTexts)
  const node = useMemo(() => {
    const opened = new Set(tasksAround(graph, id))
    return drawnTasks(graph, { opened, selected: id }).nodes.find((each) => each.id === id)?.node
  }, [graph, id])
  if (!node) return null
  const inside = run?.states.inside(id)
  const type = TYPES[node.type ?? ""]
  const rows: [string, string | undefined][] = [
    [w("type"), node.kind === "retry" ? w("attempts") : type && w(type)],
    [w("template"), node.template],
    [w("over"), node.over],
    [w("condition"), node.condition],
    [w("hookEvent"), node.hook],
    [w("progress"), inside && w("doneOf", { done: inside.done, n: inside.all })],
    [w("failed"), inside?.failed ? String(inside.failed) : undefined],
  ]
  return (
    <div className="flex flex-col gap-3 p-4">
      <div className="flex items-center gap-2">
        <h2 className="min-w-0 break-words">{node.name}</h2>
        {run && <StateBadge state={run.states.of(id)} />}
      </div>
      <dl className="flex flex-col divide-y">
        {rows.map(
          ([name, value]) =>
            value && (
              <div key={name} className="py-2">
                <dt className="text-[13px] text-muted-foreground">{name}</dt>
                <dd className="font-mono text-[13px] break-words">{value}</dd>
              </div>
            ),
        )}
      </dl>
    </div>
  )
}
