/** Reads compiled pipelines (the IR of Kubeflow Pipelines): their parameters, and their tasks as a graph. */
import type { RunTask, Value } from "@/api/pipelines"

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

/** The number of iterations of a loop that are drawn: those that are opened, failed or run, then the first ones. */
export const MOST_ITERATIONS = 10

interface Options {
  /** The ids of nested pipelines, loops and iterations that are opened. */
  opened: ReadonlySet<string>
  /** The id of the node that is selected: its iteration is always drawn. */
  selected?: string
  withArtifacts?: boolean
  /** Undefined for a pipeline that is not run. */
  tasks?: readonly RunTask[]
}

/**
 * The tasks of a pipeline or of a run as a flat graph. What is inside an opened loop or nested pipeline follows it, and
 * comes before what follows the loop. Without a spec, the graph has the tasks of the run only.
 */
export function taskGraph(spec: PipelineSpec | undefined, options: Options): TaskGraph {
  const builder = new GraphBuilder(spec, options)
  const root = options.tasks?.find((task) => task.node.kind === "root")
  builder.addDag(spec?.root, "", root)
  return { nodes: builder.nodes, edges: [...builder.edges.values()] }
}

class GraphBuilder {
  readonly nodes: GraphTask[] = []
  readonly edges = new Map<string, { from: string; to: string }>()
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

  /** Adds the tasks of a DAG. Returns the ids of the first and of the last ones. */
  addDag(component: Component | undefined, prefix: string, around?: RunTask): { first: string[]; last: string[] } {
    const tasks = component?.dag?.tasks ?? {}
    const running = new Map(this.inside(around).map((task) => [task.display_name, task]))
    const keys = [...new Set([...Object.keys(tasks), ...running.keys()])]
    const last = new Map(keys.map((key) => [key, this.addTask(key, tasks[key], prefix, running.get(key))]))
    const before = new Set<string>()
    const after = new Set<string>()
    for (const key of keys) {
      for (const { producer, artifact } of dependenciesOf(tasks[key])) {
        const from = artifact !== undefined && this.options.withArtifacts ? [`${prefix}${producer}#${artifact}`] : null
        for (const id of from ?? last.get(producer) ?? []) this.connect(id, prefix + key)
        if (!last.has(producer)) continue
        before.add(producer)
        after.add(key)
      }
    }
    return {
      first: keys.filter((key) => !after.has(key)).map((key) => prefix + key),
      last: keys.filter((key) => !before.has(key)).flatMap((key) => last.get(key) ?? []),
    }
  }

  /** Returns the ids of what the next tasks follow. */
  private addTask(key: string, task: Task | undefined, prefix: string, run: RunTask | undefined): string[] {
    const id = prefix + key
    const component = this.spec?.components?.[task?.componentRef?.name ?? ""]
    const isLoop = Boolean(task?.parameterIterator ?? task?.artifactIterator) || run?.node.kind === "loop"
    const hasTasks = component ? Boolean(component.dag) : run?.node.kind === "dag"
    const kind: TaskKind = isLoop ? "loop" : hasTasks ? "pipeline" : this.isImporter(component) ? "importer" : "task"
    // A loop over a component without tasks inside has iterations in a run only.
    const opens = hasTasks || (isLoop && this.inside(run).length > 0)
    const opened = opens ? this.options.opened.has(id) : undefined
    const isConditional = Boolean(task?.triggerPolicy?.condition)
    this.nodes.push({ id, name: task?.taskInfo?.name || key, kind, opened, task: run, isConditional })
    let last = [id]
    if (opened) last = isLoop && run ? this.addIterations(id, component, run) : this.addInside(id, component, run)
    this.addArtifacts(id, component, last, run)
    return last
  }

  private addInside(id: string, component: Component | undefined, run: RunTask | undefined): string[] {
    const { first, last } = this.addDag(component, `${id}/`, run)
    for (const each of first) this.connect(id, each)
    return last.length ? last : [id]
  }

  private addIterations(id: string, component: Component | undefined, loop: RunTask): string[] {
    const all = this.inside(loop)
    const { selected = "", opened } = this.options
    const rank = (run: RunTask) => {
      const inner = `${id}/(${run.node.iteration ?? 0})`
      return selected === inner || selected.startsWith(`${inner}/`) ? -2 : opened.has(inner) ? -1 : urgency(run)
    }
    const shown = new Set([...all].sort((a, b) => rank(a) - rank(b)).slice(0, MOST_ITERATIONS))
    const last: string[] = []
    for (const run of all.filter((each) => shown.has(each))) {
      const inner = `${id}/(${run.node.iteration ?? 0})`
      const opens = Boolean(component?.dag) || run.node.kind === "dag"
      const opened = opens ? this.options.opened.has(inner) : undefined
      this.nodes.push({
        id: inner,
        name: `#${run.node.iteration ?? 0}`,
        kind: opens ? "pipeline" : "task",
        opened,
        task: run,
      })
      this.connect(id, inner)
      last.push(...(opened ? this.addInside(inner, component, run) : [inner]))
    }
    if (all.length > shown.size) {
      const more = `${id}/more`
      this.nodes.push({ id: more, name: `+${all.length - shown.size}`, kind: "more" })
      this.connect(id, more)
      last.push(more)
    }
    return last.length ? last : [id]
  }

  private addArtifacts(id: string, component: Component | undefined, after: string[], run: RunTask | undefined): void {
    if (!this.options.withArtifacts) return
    for (const [key, definition] of Object.entries(component?.outputDefinitions?.artifacts ?? {})) {
      const artifact = `${id}#${key}`
      const type = definition.artifactType?.schemaTitle ?? definition.artifactType?.instanceSchema ?? ""
      this.nodes.push({ id: artifact, name: key, kind: "artifact", task: run, artifact: { key, type } })
      for (const from of after) this.connect(from, artifact)
    }
  }

  private inside(task: RunTask | undefined): RunTask[] {
    return task ? (this.children.get(task.task_id) ?? []) : []
  }

  private isImporter(component: Component | undefined): boolean {
    return Boolean(this.spec?.deploymentSpec?.executors?.[component?.executorLabel ?? ""]?.importer)
  }

  private connect(from: string, to: string): void {
    this.edges.set(`${from}>${to}`, { from, to })
  }
}

function urgency({ state }: RunTask): number {
  return state === "FAILED" ? 0 : state === "RUNNING" ? 1 : 2
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
