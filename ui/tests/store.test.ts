import { describe, expect, it } from "vitest"
import { isChanged, newCanvas } from "@/editor/store"
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
