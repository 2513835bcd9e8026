/** The tasks of an Argo Workflow as the server describes them, and their states in a run. */

import { type FlatGraph, flatten, idsAround, type Nesting, type Scope } from "./nested"
import type { NodeState } from "./node-card"

export interface TaskNode {
  /** What it adds to the name of the node around it. */
  key: string
  name: string
  kind: "task" | "group" | "loop" | "retry" | "join"
  /** The type of its template: container, script, dag, steps ... */
  type?: string
  /** NAME/TEMPLATE for one of the WorkflowTemplate NAME. */
  template?: string
  /** The scope of what is inside of it. */
  inside?: string
  condition?: string
  /** What a loop runs over. */
  over?: string
  /** Of a lifecycle hook: the event. */
  hook?: string
}

export interface TaskGraph {
  scopes: Readonly<Record<string, Scope<TaskNode>>>
}

export interface TaskState {
  name: string
  state: NodeState
}

/** The numbers of nodes inside of a node that have no others inside. */
export interface InnerStates {
  all: number
  done: number
  failed: number
  running: number
  stopped: number
  skipped: number
}

const EMPTY: Scope<TaskNode> = { nodes: [], edges: [] }

function nestingOf(graph: TaskGraph): Pick<Nesting<TaskNode>, "opens" | "inside"> {
  return {
    opens: ({ inside }) => Boolean(inside && graph.scopes[inside]?.nodes.length),
    inside: ({ kind, inside = "" }) => {
      const scope = graph.scopes[inside]
      // In a version, or before it has started, a loop has the tasks of its template inside.
      const isLoop = kind === "loop" && Boolean(scope?.nodes[0]?.key.startsWith("("))
      return scope && { ...scope, isLoop }
    },
  }
}

/** What is drawn of graphs of which nothing is opened. It depends on nothing else. */
const closed = new WeakMap<TaskGraph, FlatGraph<TaskNode>>()

export function drawnTasks(
  graph: TaskGraph,
  { opened, selected, states }: { opened: ReadonlySet<string>; selected?: string; states?: RunStates },
): FlatGraph<TaskNode> {
  const known = opened.size ? undefined : closed.get(graph)
  if (known) return known
  const urgency = (_: TaskNode, id: string) => {
    const state = states?.of(id)
    return state === "failed" ? 0 : state === "running" ? 1 : 2
  }
  const flat = flatten(graph.scopes[""] ?? EMPTY, { ...nestingOf(graph), opened, selected, urgency })
  if (!opened.size) closed.set(graph, flat)
  return flat
}

export function tasksAround(graph: TaskGraph, id: string): string[] {
  return idsAround(graph.scopes[""] ?? EMPTY, id, nestingOf(graph))
}

/** The states of the nodes of a run, and of the nodes around them. */
export class RunStates {
  private readonly own: ReadonlyMap<string, NodeState>
  private readonly inner = new Map<string, InnerStates>()

  constructor(
    nodes: readonly TaskState[],
    private readonly run: { over: boolean; succeeded: boolean },
  ) {
    this.own = new Map(nodes.map(({ name, state }) => [name, state]))
    for (const { name, state } of nodes)
      for (let at = 1; at < name.length; at++) {
        const char = name[at]
        if (char === "." || char === "[" || char === "(") this.count(name.slice(0, at), state)
      }
  }

  inside(id: string): InnerStates | undefined {
    return this.inner.get(id)
  }

  of(id: string): NodeState {
    const own = this.own.get(id)
    if (own) return own
    const inner = this.inner.get(id)
    if (!inner) return this.run.over ? "skipped" : "waiting"
    if (inner.skipped === inner.all) return "skipped"
    // A failure that did not fail the run was tolerated or repeated.
    if (inner.failed && !this.run.succeeded) return "failed"
    if (inner.running) return "running"
    if (inner.stopped) return "stopped"
    if (inner.done === inner.all) return "succeeded"
    return inner.done > inner.skipped ? "running" : "waiting"
  }

  private count(id: string, state: NodeState): void {
    let found = this.inner.get(id)
    if (!found) {
      found = { all: 0, done: 0, failed: 0, running: 0, stopped: 0, skipped: 0 }
      this.inner.set(id, found)
    }
    found.all += 1
    if (state === "waiting") return
    if (state !== "running") found.done += 1
    if (state !== "succeeded") found[state] += 1
  }
}
