import { describe, expect, it } from "vitest"
import type { GraphFinding } from "@/api/workflows"
import { nodeOfTemplate } from "@/editor/node-templates"
import { isChanged, isToDo, newCanvas } from "@/editor/store"
import { drawn } from "@/graph/drawing"

function canvas() {
  const { drawing } = drawn({ format: 1, nodes: [{ name: "a", position: { x: 0, y: 0 } }] })
  const store = newCanvas(drawing)
  return {
    store,
    key: drawing.nodes[0]?.key as string,
    names: () => store.getState().drawing.nodes.map((node) => node.name),
  }
}

describe("undo and redo", () => {
  it("go back and forward", () => {
    const { store, names } = canvas()
    store.getState().add({ name: "b", position: { x: 1, y: 1 } })
    expect(names()).toEqual(["a", "b"])
    store.getState().undo()
    expect(names()).toEqual(["a"])
    expect(store.getState().selected.size).toBe(0)
    store.getState().redo()
    expect(names()).toEqual(["a", "b"])
  })

  it("treat typing in one field as one change", () => {
    const { store, key, names } = canvas()
    for (const name of ["ab", "abc", "abcd"]) store.getState().changeNode(key, { name }, "name")
    store.getState().changeNode(key, { command: "x" }, "command")
    store.getState().undo()
    expect(names()).toEqual(["abcd"])
    store.getState().undo()
    expect(names()).toEqual(["a"])
  })

  it("treat a drag as one change", () => {
    const { store, key } = canvas()
    for (const x of [1, 2, 3]) store.getState().move(new Map([[key, { x, y: 0 }]]))
    store.getState().settle()
    expect(store.getState().past.length).toBe(1)
    store.getState().undo()
    expect(store.getState().drawing.nodes[0]?.position.x).toBe(0)
  })

  it("discard redo steps after a new change", () => {
    const { store, key } = canvas()
    store.getState().changeNode(key, { name: "x" }, "name")
    store.getState().undo()
    store.getState().changeNode(key, { name: "y" }, "name")
    expect(store.getState().future).toEqual([])
  })
})

it("undoing to the saved state counts as unchanged", () => {
  const { store } = canvas()
  expect(isChanged(store.getState())).toBe(false)
  store.getState().add({ name: "b", position: { x: 0, y: 0 } })
  expect(isChanged(store.getState())).toBe(true)
  store.getState().undo()
  expect(isChanged(store.getState())).toBe(false)
})

it("removes what is selected", () => {
  const { store, key, names } = canvas()
  store.getState().select([key])
  store.getState().removeSelected()
  expect(names()).toEqual([])
})

describe("what is missing in something new", () => {
  const problem = (path: string): GraphFinding => ({
    path,
    code: "x",
    message: "",
    fix: "",
    arguments: {},
    severity: "error",
  })
  const toDo = (store: ReturnType<typeof newCanvas>, path: string) => isToDo(store.getState(), problem(path))

  it("is no error until its field was touched", () => {
    const { store } = canvas()
    const key = store.getState().add({ name: "b", position: { x: 0, y: 0 } })
    expect(toDo(store, "nodes[1].command")).toBe(true)
    expect(toDo(store, "nodes[0].command")).toBe(false)
    store.getState().changeNode(key, { image: "x" }, "image")
    expect(toDo(store, "nodes[1].command")).toBe(true)
    store.getState().touch(key, "command")
    expect(toDo(store, "nodes[1].command")).toBe(false)
    expect(toDo(store, "nodes[1].name")).toBe(true)
    store.getState().reveal()
    expect(toDo(store, "nodes[1].name")).toBe(false)
  })

  it("is no error in a new row", () => {
    const { store, key } = canvas()
    store.getState().changeNode(key, { inputs: [{ name: "" }] }, "inputs[0]+")
    expect(toDo(store, "nodes[0].inputs[0].name")).toBe(true)
    store.getState().changeNode(key, { inputs: [{ name: "1" }] }, "inputs[0].name")
    expect(toDo(store, "nodes[0].inputs[0].name")).toBe(false)
    expect(toDo(store, "nodes[0].inputs[0]")).toBe(true)
    store.getState().touch(key, "inputs[0]")
    expect(toDo(store, "nodes[0].inputs[0]")).toBe(false)
  })
})

describe("a new training node", () => {
  const clusters = [
    { name: "theirs", usable: false },
    { name: "ours", usable: true },
  ]
  it.each([
    ["training", clusters, { type: "compute", cluster: "ours", skus: 1 }],
    ["training", [], undefined],
    ["plain", clusters, undefined],
  ] as const)("of kind %s among %j has the task %j", (kind, clusters, task) =>
    expect(nodeOfTemplate({ kind }, { x: 0, y: 0 }, clusters).task).toEqual(task),
  )
})
