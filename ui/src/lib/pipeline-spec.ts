/** Reads compiled pipelines (the IR of Kubeflow Pipelines): their parameters, and their tasks as a graph. */
import type { RunTask, Value } from "@/api/pipelines"
import { flatten, type Scope } from "@/graph/nested"

export interface ParameterDefinition {
  parameterType?: string
  defaultValue?: Value
  isOptional?: boolean
  description?: string
  literals?: Value[]
}

interface ArtifactDefinition {
  artifactType?: { schemaTitle?: string; instanceSchema?: string }
}

interface Task {
  componentRef?: { name: string }
  taskInfo?: { name?: string }
  dependentTasks?: string[]
  inputs?: {
    parameters?: Record<
      string,
      { taskOutputParameter?: { producerTask: string }; taskFinalStatus?: { producerTask: string } }
    >
    artifacts?: Record<string, { taskOutputArtifact?: { producerTask: string; outputArtifactKey: string } }>
  }
  parameterIterator?: unknown
  artifactIterator?: unknown
  triggerPolicy?: { condition?: string; strategy?: string }
}

export interface Component {
  executorLabel?: string
  dag?: { tasks?: Record<string, Task> }
  inputDefinitions?: { parameters?: Record<string, ParameterDefinition> }
  outputDefinitions?: { artifacts?: Record<string, ArtifactDefinition> }
}

export interface PipelineSpec {
  pipelineInfo?: { name?: string; description?: string }
  root?: Component
  components?: Record<string, Component>
  deploymentSpec?: { executors?: Record<string, { importer?: unknown }> }
}

/** The pipeline itself: beside it, the document may have a platform's settings. */
export function pipelineOf(document: Record<string, unknown> | undefined): PipelineSpec | undefined {
  if (!document) return undefined
  return (document.pipeline_spec ?? document.pipelineSpec ?? document) as PipelineSpec
}

// Parameters

export interface ParameterField {
  name: string
  /** STRING, NUMBER_INTEGER, NUMBER_DOUBLE, BOOLEAN, LIST or STRUCT. */
  type: string
  required: boolean
  description: string
  choices: string[]
  initial: string
}

/** The fields of the form for a new run. `given` has the values of the run that is cloned. */
export function parameterFields(spec: PipelineSpec, given: Record<string, Value> = {}): ParameterField[] {
  return Object.entries(spec.root?.inputDefinitions?.parameters ?? {}).map(([name, definition]) => {
    const value = name in given ? given[name] : definition.defaultValue
    return {
      name,
      type: definition.parameterType ?? "STRING",
      required: !definition.isOptional && definition.defaultValue === undefined,
      description: definition.description ?? "",
      choices: (definition.literals ?? []).map(valueText),
      initial: value === undefined || value === null ? "" : valueText(value),
    }
  })
}

/** A value as people write it: texts without quotes, everything else as JSON. */
export function valueText(value: Value | undefined): string {
  if (value === undefined) return ""
  return typeof value === "string" ? value : JSON.stringify(value)
}

export type ParameterFault = "missing" | "integer" | "number" | "boolean" | "list" | "struct"

/** Reads the texts of the form. Fields that may be left out and are empty are left out. */
export function readParameters(
  fields: readonly ParameterField[],
  texts: Readonly<Record<string, string>>,
): { values: Record<string, Value>; faults: Record<string, ParameterFault> } {
  const values: Record<string, Value> = {}
  const faults: Record<string, ParameterFault> = {}
  for (const field of fields) {
    const text = texts[field.name] ?? field.initial
    if (text === "" && (field.type !== "STRING" || field.initial === "")) {
      if (field.required) faults[field.name] = "missing"
      continue
    }
    const read = readValue(field.type, text)
    if ("fault" in read) faults[field.name] = read.fault
    else values[field.name] = read.value
  }
  return { values, faults }
}

function readValue(type: string, text: string): { value: Value } | { fault: ParameterFault } {
  const trimmed = text.trim()
  if (type === "NUMBER_INTEGER") return /^[+-]?\d+$/.test(trimmed) ? { value: Number(trimmed) } : { fault: "integer" }
  if (type === "NUMBER_DOUBLE")
    return trimmed && Number.isFinite(Number(trimmed)) ? { value: Number(trimmed) } : { fault: "number" }
  if (type === "BOOLEAN")
    return trimmed === "true" || trimmed === "false" ? { value: trimmed === "true" } : { fault: "boolean" }
  if (type === "LIST" || type === "STRUCT") {
    const fault = type === "LIST" ? "list" : "struct"
    try {
      const value = JSON.parse(trimmed) as Value
      const fits = typeof value === "object" && value !== null && Array.isArray(value) === (type === "LIST")
      return fits ? { value } : { fault }
    } catch {
      return { fault }
    }
  }
  return { value: text }
}

// Graph

export type TaskKind = "task" | "pipeline" | "loop" | "importer" | "artifact" | "more"

export interface GraphTask {
  /** The path from the root: `for-loop-1/(3)/train`; of an artifact, `train#model`. */
  id: string
  name: string
  kind: TaskKind
  /** Whether it has tasks inside, and whether they are shown. */
  opened?: boolean
  /** What the run says about it. */
  task?: RunTask
  /** Of an artifact: the output, and its type. */
  artifact?: { key: string; type: string }
  isConditional?: boolean
}

export interface TaskGraph {
  nodes: GraphTask[]
  edges: { from: string; to: string }[]
}

interface Options {
  /** The ids of nested pipelines, loops and iterations that are opened. */
  opened: ReadonlySet<string>
  /** The id of the node that is selected: its iteration is always drawn. */
  selected?: string
  withArtifacts?: boolean
  /** Undefined for a pipeline that is not run. */
  tasks?: readonly RunTask[]
}

/** The tasks of a pipeline or of a run as a flat graph. Without a spec, the graph has the tasks of the run only. */
export function taskGraph(spec: PipelineSpec | undefined, options: Options): TaskGraph {
  const reader = new ScopeReader(spec, options)
  const root = options.tasks?.find((task) => task.node.kind === "root")
  const flat = flatten(reader.dag(spec?.root, "", root), {
    opened: options.opened,
    selected: options.selected,
    opens: ({ opens }) => opens,
    inside: (node) => reader.inside(node),
    urgency: ({ task }) => urgency(task),
    isAside: ({ kind }) => kind === "artifact",
  })
  return {
    nodes: flat.nodes.map(({ id, node, opened, more }): GraphTask => {
      if (!node) return { id, name: `+${more}`, kind: "more" }
      const { name, kind, task, artifact, isConditional } = node
      return { id, name, kind, opened, task, artifact, isConditional }
    }),
    edges: flat.edges,
  }
}

interface ScopeNode extends Omit<GraphTask, "id" | "opened"> {
  key: string
  opens: boolean
  component?: Component
}

/** Reads what is inside of pipelines, loops and iterations. */
class ScopeReader {
  private readonly children = new Map<string, RunTask[]>()

  constructor(
    private readonly spec: PipelineSpec | undefined,
    private readonly options: Options,
  ) {
    for (const task of options.tasks ?? []) {
      const parent = task.parent_task_id ?? ""
      const known = this.children.get(parent)
      if (known) known.push(task)
      else this.children.set(parent, [task])
    }
  }

  /** The tasks of a DAG, and their artifacts. `before` is put before their names. */
  dag(component: Component | undefined, before: string, around?: RunTask): Scope<ScopeNode> {
    const tasks = component?.dag?.tasks ?? {}
    const running = new Map(this.tasksOf(around).map((task) => [task.display_name, task]))
    const nodes: ScopeNode[] = []
    const edges: [number, number][] = []
    const places = new Map<string, number>()
    for (const key of new Set([...Object.keys(tasks), ...running.keys()])) {
      const node = this.task(key, tasks[key], before, running.get(key))
      const place = nodes.push(node) - 1
      places.set(key, place)
      for (const artifact of this.artifacts(node)) {
        places.set(artifact.key.slice(before.length), nodes.length)
        edges.push([place, nodes.push(artifact) - 1])
      }
    }
    for (const [key, task] of Object.entries(tasks)) {
      for (const { producer, artifact } of dependenciesOf(task)) {
        const from = places.get(`${producer}#${artifact}`) ?? places.get(producer)
        if (from !== undefined) edges.push([from, places.get(key) as number])
      }
    }
    return { nodes, edges }
  }

  inside(node: ScopeNode): Scope<ScopeNode> {
    if (node.kind !== "loop" || !node.task) return this.dag(node.component, "/", node.task)
    const iterations = this.tasksOf(node.task).map((task): ScopeNode => {
      const number = task.node.iteration ?? 0
      const opens = Boolean(node.component?.dag) || task.node.kind === "dag"
      const kind = opens ? "pipeline" : "task"
      return { key: `/(${number})`, name: `#${number}`, kind, opens, task, component: node.component }
    })
    return { nodes: iterations, edges: [], isLoop: true }
  }

  private task(key: string, task: Task | undefined, before: string, run: RunTask | undefined): ScopeNode {
    const component = this.spec?.components?.[task?.componentRef?.name ?? ""]
    const isLoop = Boolean(task?.parameterIterator ?? task?.artifactIterator) || run?.node.kind === "loop"
    const hasTasks = component ? Boolean(component.dag) : run?.node.kind === "dag"
    const kind: TaskKind = isLoop ? "loop" : hasTasks ? "pipeline" : this.isImporter(component) ? "importer" : "task"
    return {
      key: before + key,
      name: task?.taskInfo?.name || key,
      kind,
      // A loop over a component without tasks inside has iterations in a run only.
      opens: hasTasks || (isLoop && this.tasksOf(run).length > 0),
      component,
      task: run,
      isConditional: Boolean(task?.triggerPolicy?.condition),
    }
  }

  private artifacts({ key: of, component, task }: ScopeNode): ScopeNode[] {
    if (!this.options.withArtifacts) return []
    return Object.entries(component?.outputDefinitions?.artifacts ?? {}).map(([key, definition]) => {
      const type = definition.artifactType?.schemaTitle ?? definition.artifactType?.instanceSchema ?? ""
      return { key: `${of}#${key}`, name: key, kind: "artifact", opens: false, task, artifact: { key, type } }
    })
  }

  private tasksOf(task: RunTask | undefined): RunTask[] {
    return task ? (this.children.get(task.task_id) ?? []) : []
  }

  private isImporter(component: Component | undefined): boolean {
    return Boolean(this.spec?.deploymentSpec?.executors?.[component?.executorLabel ?? ""]?.importer)
  }
}

function urgency(task: RunTask | undefined): number {
  return task?.state === "FAILED" ? 0 : task?.state === "RUNNING" ? 1 : 2
}

function dependenciesOf(task: Task | undefined): { producer: string; artifact?: string }[] {
  const found: { producer: string; artifact?: string }[] = []
  for (const { taskOutputArtifact: from } of Object.values(task?.inputs?.artifacts ?? {}))
    if (from) found.push({ producer: from.producerTask, artifact: from.outputArtifactKey })
  const known = new Set(found.map(({ producer }) => producer))
  const others = [
    ...Object.values(task?.inputs?.parameters ?? {}).map(
      (input) => input.taskOutputParameter?.producerTask ?? input.taskFinalStatus?.producerTask,
    ),
    ...(task?.dependentTasks ?? []),
  ]
  for (const producer of new Set(others)) if (producer && !known.has(producer)) found.push({ producer })
  return found
}

// YAML

/** Writes a document as YAML. Texts that YAML would read as something else are quoted. */
export function toYaml(value: unknown, indent = ""): string {
  if (Array.isArray(value)) {
    if (!value.length) return `${indent}[]\n`
    return value.map((each) => `${indent}- ${inline(each, `${indent}  `)}`).join("")
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value)
    if (!entries.length) return `${indent}{}\n`
    return entries.map(([name, each]) => `${indent}${key(name)}:${member(each, `${indent}  `)}`).join("")
  }
  return indent + scalar(value, indent)
}

/** What follows `- `: the first line of a map or list stands behind the dash. */
function inline(value: unknown, indent: string): string {
  return toYaml(value, indent).slice(indent.length)
}

function member(value: unknown, indent: string): string {
  const isEmpty = typeof value === "object" && value !== null && !Object.keys(value).length
  if (typeof value === "object" && value !== null && !isEmpty) return `\n${toYaml(value, indent)}`
  return ` ${inline(value, indent)}`
}

const PLAIN = /^[A-Za-z_][\w ./-]*$/
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n"])

function key(name: string): string {
  return PLAIN.test(name) && !WORDS.has(name.toLowerCase()) && !name.endsWith(" ") ? name : JSON.stringify(name)
}

function scalar(value: unknown, indent: string): string {
  if (typeof value !== "string") return `${JSON.stringify(value ?? null)}\n`
  const isBlock = value.includes("\n") && !/[\t\r]|[^\n\P{C}]|(^|\n) +\n/u.test(value) && !/^[ \n]/.test(value)
  if (!isBlock) return `${key(value)}\n`
  const body = value.replace(/\n+$/, "")
  const chomp = body === value ? "-" : body.length === value.length - 1 ? "" : "+"
  const inside = indent || "  "
  const lines = (chomp === "+" ? value.slice(0, -1) : body).split("\n")
  return `|${chomp}\n${lines.map((line) => (line ? inside + line : "")).join("\n")}\n`
}
