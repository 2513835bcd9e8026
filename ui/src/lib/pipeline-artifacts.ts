/** What artifacts of pipelines say about models: scalars, ROC curves and confusion matrices. */
import type { Artifact, RunTask, Value } from "@/api/pipelines"
import { numberText } from "./metric-curves"

export interface Matrix {
  labels: string[]
  rows: number[][]
}

/** A point: the share of false positives and of true positives (recall), both from 0 to 1. */
export interface RocPoint {
  x: number
  y: number
  threshold: number | null
}

/** Metrics of a classifier, of all data or of one slice. */
export interface Classification {
  slice: string
  roc: RocPoint[]
  matrix?: Matrix
}

export interface OutputArtifact {
  task: RunTask
  /** `train.metrics`, `for-loop(2).train.metrics`: unique in a run, and the same in the runs of a pipeline. */
  path: string
  key: string
  at: number
  artifact: Artifact
}

export function typeOf(artifact: Artifact): string {
  return artifact.type.schemaTitle ?? artifact.type.instanceSchema ?? ""
}

/** `system.Metrics` is Metrics. */
export function shortType(type: string): string {
  return type.replace(/^(system|google)\./, "")
}

/** The artifacts that the tasks of a run wrote. Nested pipelines only pass on what is inside of them. */
export function outputArtifacts(tasks: readonly RunTask[]): OutputArtifact[] {
  return tasks
    .filter(({ node }) => node.kind === "container" || node.kind === "importer")
    .flatMap((task) =>
      Object.entries(task.node.outputs.artifacts ?? {}).flatMap(([key, { artifacts }]) =>
        artifacts.map((artifact, at) => ({ task, path: `${pathOf(task)}.${key}`, key, at, artifact })),
      ),
    )
}

/** The name of a node without that of the run. */
export function pathOf(task: RunTask): string {
  const at = task.node.name.indexOf(".")
  return at < 0 ? task.display_name : task.node.name.slice(at + 1)
}

/** The numbers and short texts of a Metrics artifact. */
export function scalarsOf(artifact: Artifact): [string, string | number][] {
  return Object.entries(artifact.metadata).flatMap(([name, value]): [string, string | number][] => {
    if (name === "display_name" || name === "store_session_info") return []
    if (typeof value === "number" || typeof value === "string") return [[name, value]]
    return typeof value === "boolean" ? [[name, String(value)]] : []
  })
}

/** The curves and matrices of a ClassificationMetrics or SlicedClassificationMetrics artifact. */
export function classificationsOf(artifact: Artifact): Classification[] {
  const slices = unwrapped(artifact.metadata.evaluationSlices)
  if (Array.isArray(slices))
    return slices.flatMap((each) => {
      const slice = asRecord(each)
      const metrics = asRecord(slice.sliceClassificationMetrics)
      return classification(typeof slice.slice === "string" ? slice.slice : "", metrics)
    })
  return classification("", artifact.metadata)
}

function classification(slice: string, metadata: Record<string, Value>): Classification[] {
  const roc = rocOf(unwrapped(metadata.confidenceMetrics))
  const matrix = matrixOf(unwrapped(metadata.confusionMatrix))
  return roc.length || matrix ? [{ slice, roc, ...(matrix ? { matrix } : {}) }] : []
}

/** Kubeflow Pipelines sometimes puts a list or matrix into `{struct: ...}` or `{list: ...}`. */
function unwrapped(value: Value | undefined): Value | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value
  return value.struct ?? value.list ?? value
}

function asRecord(value: Value | undefined): Record<string, Value> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}
}

/** A curve from (0, 0) to (1, 1), without points that are not numbers. */
function rocOf(value: Value | undefined): RocPoint[] {
  if (!Array.isArray(value)) return []
  return value
    .map(asRecord)
    .map(({ falsePositiveRate, recall, confidenceThreshold }) => ({
      x: Number(falsePositiveRate ?? 0),
      y: Number(recall ?? 0),
      threshold: typeof confidenceThreshold === "number" ? confidenceThreshold : null,
    }))
    .filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))
    .sort((a, b) => a.x - b.x || a.y - b.y)
}

/** The area below a curve, by trapezoids; undefined without two points. */
export function areaBelow(points: readonly RocPoint[]): number | undefined {
  if (points.length < 2) return undefined
  let area = 0
  points.slice(1).forEach((point, index) => {
    const before = points[index] as RocPoint
    area += ((point.x - before.x) * (point.y + before.y)) / 2
  })
  return area
}

function matrixOf(value: Value | undefined): Matrix | undefined {
  const { annotationSpecs, rows } = asRecord(value)
  if (!Array.isArray(annotationSpecs) || !Array.isArray(rows)) return undefined
  const labels = annotationSpecs.map((each) => String(asRecord(each).displayName ?? ""))
  const numbers = rows.map((each) => {
    const row = Array.isArray(each) ? each : asRecord(each).row
    return Array.isArray(row) ? row.map(Number) : []
  })
  return labels.length && numbers.length ? { labels, rows: numbers } : undefined
}

// Comparing

export interface ComparedRow {
  name: string
  values: (string | undefined)[]
  isDifferent: boolean
}

/** One row for each name that any of the runs has. */
export function comparedRows(runs: readonly Readonly<Record<string, string>>[]): ComparedRow[] {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run)))]
  return names.map((name) => {
    const values = runs.map((run) => run[name])
    return { name, values, isDifferent: new Set(values).size > 1 }
  })
}

/** The scalar metrics of a run by `task.artifact.metric`. */
export function scalarMetrics(tasks: readonly RunTask[]): Record<string, string> {
  return Object.fromEntries(
    outputArtifacts(tasks)
      .filter(({ artifact }) => typeOf(artifact) === "system.Metrics")
      .flatMap(({ path, at, artifact }) =>
        scalarsOf(artifact).map(([name, value]) => [
          `${path}${at ? `[${at}]` : ""}.${name}`,
          typeof value === "number" ? numberText(value) : value,
        ]),
      ),
  )
}
