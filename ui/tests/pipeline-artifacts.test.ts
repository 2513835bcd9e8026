/** Metrics, ROC curves and confusion matrices of artifacts. */
import { expect, test } from "vitest"
import type { Artifact, RunTask, Value } from "@/api/pipelines"
import {
  areaBelow,
  classificationsOf,
  comparedRows,
  scalarMetrics,
  scalarsOf,
  shortType,
} from "@/lib/pipeline-artifacts"

const MATRIX: Value = {
  annotationSpecs: [{ displayName: "cat" }, { displayName: "dog" }],
  rows: [{ row: [3, 1] }, { row: [0, 4] }],
}
const CURVE: Value[] = [
  { confidenceThreshold: 0.5, recall: 0.8, falsePositiveRate: 0.2 },
  { confidenceThreshold: 1, recall: 0, falsePositiveRate: 0 },
  { recall: 1, falsePositiveRate: 1 },
]

function artifact(metadata: Record<string, Value>, schemaTitle = "system.ClassificationMetrics"): Artifact {
  return { name: "m", uri: "", type: { schemaTitle }, metadata }
}

test("a curve is sorted from the lower left to the upper right", () => {
  const [found] = classificationsOf(artifact({ confidenceMetrics: CURVE }))
  expect(found?.roc).toEqual([
    { x: 0, y: 0, threshold: 1 },
    { x: 0.2, y: 0.8, threshold: 0.5 },
    { x: 1, y: 1, threshold: null },
  ])
  expect(areaBelow(found?.roc ?? [])).toBeCloseTo(0.8)
})

test("a matrix has labels and rows, also inside of a struct", () => {
  const expected = [
    {
      slice: "",
      roc: [],
      matrix: {
        labels: ["cat", "dog"],
        rows: [
          [3, 1],
          [0, 4],
        ],
      },
    },
  ]
  expect(classificationsOf(artifact({ confusionMatrix: MATRIX }))).toEqual(expected)
  expect(classificationsOf(artifact({ confusionMatrix: { struct: MATRIX } }))).toEqual(expected)
})

test("slices have their own metrics", () => {
  const slices: Value[] = [
    { slice: "a", sliceClassificationMetrics: { confidenceMetrics: CURVE } },
    { slice: "b", sliceClassificationMetrics: { confusionMatrix: MATRIX } },
  ]
  const found = classificationsOf(artifact({ evaluationSlices: slices }))
  expect(found.map(({ slice, roc, matrix }) => [slice, roc.length, matrix?.labels.length])).toEqual([
    ["a", 3, undefined],
    ["b", 0, 2],
  ])
})

test.each([
  [{}],
  [{ confidenceMetrics: "x", confusionMatrix: 3 }],
  [{ evaluationSlices: [null, 1, {}] }],
  [{ confidenceMetrics: [{ recall: "x" }] }],
  [{ confusionMatrix: { annotationSpecs: [], rows: [] } }],
])("%j has no curve and no matrix", (metadata) => {
  expect(classificationsOf(artifact(metadata as Record<string, Value>))).toEqual([])
})

test("scalars are numbers and texts", () => {
  const found = scalarsOf(artifact({ accuracy: 0.9, name: "x", display_name: "m", list: [1], ok: true }))
  expect(found).toEqual([
    ["accuracy", 0.9],
    ["name", "x"],
    ["ok", "true"],
  ])
  expect(shortType("system.Metrics")).toBe("Metrics")
})

test("runs are compared by task, artifact and metric", () => {
  const outputs = {
    parameterValues: {},
    artifacts: { scores: { artifacts: [artifact({ accuracy: 1 / 3 }, "system.Metrics")] } },
  }
  const node = {
    kind: "container",
    component: "",
    iteration: null,
    cached: false,
    attempts: [],
    inputs: outputs,
    outputs,
  }
  const train = { task_id: "t", display_name: "train", state: "SUCCEEDED", node: { ...node, name: "demo-x1.train" } }
  expect(scalarMetrics([train as unknown as RunTask])).toEqual({ "train.scores.accuracy": "0.33333" })
  expect(comparedRows([{ a: "1", b: "2" }, { a: "1" }])).toEqual([
    { name: "a", values: ["1", "1"], isDifferent: false },
    { name: "b", values: ["2", undefined], isDifferent: true },
  ])
})
