/** Compiled pipelines as forms and graphs. */
import { describe, expect, it, test } from "vitest"
import { listParameters, type RunTask } from "@/api/pipelines"
import { MOST_ITERATIONS } from "@/graph/nested"
import { type PipelineSpec, parameterFields, pipelineOf, readParameters, taskGraph, toYaml } from "@/lib/pipeline-spec"

const SPEC: PipelineSpec = {
  pipelineInfo: { name: "demo" },
  root: {
    inputDefinitions: {
      parameters: {
        who: { parameterType: "STRING" },
        times: { parameterType: "NUMBER_INTEGER", defaultValue: 3, isOptional: true },
        rate: { parameterType: "NUMBER_DOUBLE", isOptional: true },
        fast: { parameterType: "BOOLEAN", defaultValue: false },
        sizes: { parameterType: "LIST", defaultValue: [1, 2] },
        mode: { parameterType: "STRING", literals: ["a", "b"], defaultValue: "a" },
      },
    },
    dag: {
      tasks: {
        load: { componentRef: { name: "comp-load" }, taskInfo: { name: "load" } },
        loop: {
          componentRef: { name: "comp-loop" },
          taskInfo: { name: "for each size" },
          parameterIterator: {},
          inputs: { parameters: { data: { taskOutputParameter: { producerTask: "load" } } } },
        },
        report: {
          componentRef: { name: "comp-report" },
          dependentTasks: ["loop", "load"],
          inputs: { artifacts: { data: { taskOutputArtifact: { producerTask: "load", outputArtifactKey: "data" } } } },
        },
      },
    },
  },
  components: {
    "comp-load": {
      executorLabel: "exec-load",
      outputDefinitions: { artifacts: { data: { artifactType: { schemaTitle: "system.Dataset" } } } },
    },
    "comp-loop": { dag: { tasks: { train: { componentRef: { name: "comp-train" } } } } },
    "comp-train": { executorLabel: "exec-train" },
    "comp-report": { executorLabel: "exec-report" },
  },
  deploymentSpec: { executors: { "exec-load": { importer: {} } } },
}

function task(id: string, parent: string, name: string, more: Partial<RunTask["node"]> = {}): RunTask {
  const values = { parameterValues: {} }
  const kind = more.kind ?? "container"
  const node = {
    name: id,
    kind,
    component: "",
    iteration: null,
    cached: false,
    attempts: [],
    inputs: values,
    outputs: values,
  }
  return { task_id: id, display_name: name, state: "SUCCEEDED", parent_task_id: parent, node: { ...node, ...more } }
}

const edges = (graph: ReturnType<typeof taskGraph>) => graph.edges.map(({ from, to }) => `${from} > ${to}`).sort()

describe("graph", () => {
  it("has tasks, what they depend on, and their kinds", () => {
    const graph = taskGraph(SPEC, { opened: new Set() })
    expect(graph.nodes.map(({ id, name, kind, opened }) => [id, name, kind, opened])).toEqual([
      ["load", "load", "importer", undefined],
      ["loop", "for each size", "loop", false],
      ["report", "report", "task", undefined],
    ])
    expect(edges(graph)).toEqual(["load > loop", "load > report", "loop > report"])
  })

  it("draws an artifact between the task that writes it and the one that reads it", () => {
    const graph = taskGraph(SPEC, { opened: new Set(), withArtifacts: true })
    expect(graph.nodes.find(({ id }) => id === "load#data")?.artifact).toEqual({ key: "data", type: "system.Dataset" })
    expect(edges(graph)).toEqual(["load > load#data", "load > loop", "load#data > report", "loop > report"])
  })

  it("opens a loop of a pipeline in place", () => {
    expect(edges(taskGraph(SPEC, { opened: new Set(["loop"]) }))).toEqual([
      "load > loop",
      "load > report",
      "loop > loop/train",
      "loop/train > report",
    ])
  })

  const RUN = [
    task("r", "", "root", { kind: "root" }),
    task("l", "r", "load"),
    task("o", "r", "loop", { kind: "loop" }),
    task("o0", "o", "loop", { kind: "dag", iteration: 0 }),
    task("o1", "o", "loop", { kind: "dag", iteration: 1 }),
    task("t1", "o1", "train"),
  ]

  it("opens iterations of a run, and knows the states of what is inside", () => {
    const opened = new Set(["loop", "loop/(1)"])
    const graph = taskGraph(SPEC, { opened, tasks: RUN })
    expect(graph.nodes.map(({ id, task }) => [id, task?.task_id])).toEqual([
      ["load", "l"],
      ["loop", "o"],
      ["loop/(0)", "o0"],
      ["loop/(1)", "o1"],
      ["loop/(1)/train", "t1"],
      ["report", undefined],
    ])
    expect(edges(graph)).toContain("loop/(1)/train > report")
    expect(edges(graph)).toContain("loop/(0) > report")
  })

  it("draws iterations that are opened, selected or failed, and the first ones", () => {
    const many = Array.from({ length: 1000 }, (_, at): RunTask => {
      const found = task(`i${at}`, "o", "loop", { kind: "dag", iteration: at })
      return at === 900 ? { ...found, state: "FAILED" } : found
    })
    const opened = new Set(["loop", "loop/(700)"])
    const { nodes } = taskGraph(SPEC, { opened, selected: "loop/(800)", tasks: [...RUN.slice(0, 3), ...many] })
    const ids = nodes.map(({ id }) => id)
    expect(nodes.filter(({ name }) => name.startsWith("#"))).toHaveLength(MOST_ITERATIONS)
    for (const id of ["loop/(700)", "loop/(800)", "loop/(900)"]) expect(ids).toContain(id)
    expect(nodes.find(({ kind }) => kind === "more")?.name).toBe(`+${1000 - MOST_ITERATIONS}`)
  })

  it("shows what was started if the spec is gone", () => {
    const graph = taskGraph(undefined, { opened: new Set(["loop"]), tasks: RUN })
    expect(graph.nodes.map(({ id }) => id)).toEqual(["load", "loop", "loop/(0)", "loop/(1)"])
  })

  it("is empty for an empty spec", () => expect(taskGraph({}, { opened: new Set() })).toEqual({ nodes: [], edges: [] }))
})

describe("parameters", () => {
  it("have types, defaults and choices", () => {
    expect(
      parameterFields(SPEC).map(({ name, required, initial, choices }) => [name, required, initial, choices]),
    ).toEqual([
      ["who", true, "", []],
      ["times", false, "3", []],
      ["rate", false, "", []],
      ["fast", false, "false", []],
      ["sizes", false, "[1,2]", []],
      ["mode", false, "a", ["a", "b"]],
    ])
  })

  it("of a clone are kept", () => {
    const [who, times] = parameterFields(SPEC, { who: "ann", times: 0, gone: 1 })
    expect([who?.initial, times?.initial]).toEqual(["ann", "0"])
  })

  const fields = parameterFields(SPEC)
  test.each([
    [{ who: "ann" }, { who: "ann", times: 3, fast: false, sizes: [1, 2], mode: "a" }],
    [
      { who: "1", rate: " 0.5 ", sizes: "[]" },
      { who: "1", times: 3, rate: 0.5, fast: false, sizes: [], mode: "a" },
    ],
    [
      { who: "x", times: "", fast: "true", mode: "" },
      { who: "x", fast: true, sizes: [1, 2], mode: "" },
    ],
  ])("%j is read as %j", (texts, values) => {
    expect(readParameters(fields, texts as Record<string, string>)).toEqual({ values, faults: {} })
  })

  test.each([
    ["who", "", "missing"],
    ["times", "1.5", "integer"],
    ["times", "x", "integer"],
    ["rate", "fast", "number"],
    ["fast", "yes", "boolean"],
    ["sizes", "{}", "list"],
    ["sizes", "[1", "list"],
  ])("%s cannot be %j", (name, text, fault) => {
    expect(readParameters(fields, { who: "ann", [name]: text }).faults).toEqual({ [name]: fault })
  })
})

test("the pipeline is inside of a document with a platform's settings", () => {
  expect(pipelineOf({ pipeline_spec: SPEC, platform_spec: {} })).toBe(SPEC)
  expect(pipelineOf(SPEC as Record<string, unknown>)).toBe(SPEC)
  expect(pipelineOf(undefined)).toBeUndefined()
})

test.each([
  [{ a: 1, b: "x y", c: [], d: {}, e: null }, "a: 1\nb: x y\nc: []\nd: {}\ne: null\n"],
  [{ list: [{ a: 1, b: 2 }, [1], "- x"] }, 'list:\n  - a: 1\n    b: 2\n  - - 1\n  - "- x"\n'],
  [{ no: "true", "a: b": "1" }, '"no": "true"\n"a: b": "1"\n'],
  [{ text: "a\n\n  b\n", end: "a\nb" }, "text: |\n  a\n\n    b\nend: |-\n  a\n  b\n"],
  [{ text: "a\n\n" }, "text: |+\n  a\n\n"],
  [{ text: "\tx\ny" }, 'text: "\\tx\\ny"\n'],
])("%j is written as YAML", (value, text) => expect(toYaml(value)).toBe(text))

test("lists are asked for with a filter, an order and a page", () => {
  const asked = listParameters({
    q: "x",
    where: { state: "FAILED", other: undefined },
    sort: "-created_at",
    cursor: "c",
  })
  expect(Object.fromEntries(asked)).toEqual({
    namespace: "-",
    page_size: "50",
    sort_by: "created_at desc",
    page_token: "c",
    filter: JSON.stringify({
      predicates: [
        { operation: "EQUALS", key: "state", string_value: "FAILED" },
        { operation: "IS_SUBSTRING", key: "display_name", string_value: "x" },
      ],
    }),
  })
})
