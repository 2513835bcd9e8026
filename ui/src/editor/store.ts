import { createContext, useContext } from "react"
import { createStore, type StoreApi, useStore } from "zustand"
import type { GraphFinding } from "@/api/workflows"
import type { Position } from "@/graph/document"
import {
  added,
  type Drawing,
  type DrawnEdge,
  type DrawnNode,
  edgeId,
  part,
  pasted,
  placeOf,
  withNode,
  without,
  withoutEdges,
} from "@/graph/drawing"

/** The state of a canvas: the drawing, the selection and the history. */

const REMEMBERED = 200
const SAME_MILLISECONDS = 1200

export interface Canvas {
  drawing: Drawing
  /** Keys of nodes. */
  selected: ReadonlySet<string>
  /** Ids of edges. */
  selectedEdges: ReadonlySet<string>
  past: Drawing[]
  future: Drawing[]
  /** The drawing as it was saved. */
  saved: Drawing
  problems: GraphFinding[]
  checking: boolean
  /** New nodes (by key) and new rows (`key inputs[0]`): what is missing there is not an error yet. */
  fresh: ReadonlySet<string>
  /** Fields that the user has changed or left (`key command`). */
  touched: ReadonlySet<string>
  /** The user has tried to save: everything that is missing is an error. */
  revealed: boolean
  /** The field that the side form shows and focuses. */
  wanted?: { key?: string; field: string; count: number }

  change: (drawing: Drawing, same?: string) => void
  changeNode: (key: string, change: Partial<DrawnNode>, field: string) => void
  add: (node: Omit<DrawnNode, "key">) => string
  move: (places: Map<string, Position>) => void
  settle: () => void
  select: (nodes: Iterable<string>, edges?: Iterable<string>) => void
  removeSelected: () => void
  paste: (copied: Drawing, aside: Position) => void
  undo: () => void
  redo: () => void
  markSaved: () => void
  go: (key: string | undefined, field: string) => void
  touch: (key: string | undefined, field: string) => void
  reveal: () => void
}

export type CanvasStore = StoreApi<Canvas>

export function newCanvas(drawing: Drawing, { unsaved = false } = {}): CanvasStore {
  let last = { same: "", at: 0 }
  let before: Drawing | undefined // the drawing before the current drag

  return createStore<Canvas>((set, get) => {
    const change = (drawing: Drawing, same = "") => {
      const { drawing: old, past } = get()
      if (drawing === old) return
      const now = Date.now()
      const joined = same !== "" && same === last.same && now - last.at < SAME_MILLISECONDS
      last = { same, at: now }
      set({ drawing, past: joined ? past : [...past.slice(1 - REMEMBERED), old], future: [] })
    }
    /** Remembers a field that was changed, or a row that was added (`inputs[0]+`). */
    const note = (key: string, field = "") => {
      if (field.endsWith("+")) set({ fresh: new Set(get().fresh).add(`${key} ${field.slice(0, -1)}`) })
      else if (field) set({ touched: new Set(get().touched).add(`${key} ${field}`) })
    }
    const there = (drawing: Drawing, keys: Iterable<string>) => {
      const known = new Set(drawing.nodes.map((node) => node.key))
      return new Set([...keys].filter((key) => known.has(key)))
    }
    return {
      drawing,
      selected: new Set(),
      selectedEdges: new Set(),
      past: [],
      future: [],
      saved: unsaved ? { parameters: [], nodes: [], edges: [] } : drawing,
      problems: [],
      checking: false,
      fresh: new Set(),
      touched: new Set(),
      revealed: false,
      change: (drawing, field) => {
        change(drawing, field)
        note("", field)
      },
      changeNode: (key, what, field) => {
        change(withNode(get().drawing, key, what), `${key} ${field}`)
        note(key, field)
      },
      add: (node) => {
        const result = added(get().drawing, node)
        change(result.drawing)
        const fresh = new Set(get().fresh).add(result.key)
        set({ selected: new Set([result.key]), selectedEdges: new Set(), fresh })
        return result.key
      },
      move: (places) => {
        const { drawing } = get()
        before ??= drawing
        const nodes = drawing.nodes.map((node) => {
          const position = places.get(node.key)
          return position ? { ...node, position } : node
        })
        set({ drawing: { ...drawing, nodes } })
      },
      settle: () => {
        if (before && before !== get().drawing) set({ past: [...get().past.slice(1 - REMEMBERED), before], future: [] })
        before = undefined
      },
      select: (nodes, edges = []) => set({ selected: new Set(nodes), selectedEdges: new Set(edges) }),
      removeSelected: () => {
        const { drawing, selected, selectedEdges } = get()
        if (!selected.size && !selectedEdges.size) return
        const gone = drawing.edges.filter((edge) => selectedEdges.has(edgeId(edge)))
        change(without(withoutEdges(drawing, gone), selected))
        set({ selected: new Set(), selectedEdges: new Set() })
      },
      paste: (copied, aside) => {
        const result = pasted(get().drawing, copied, aside)
        change(result.drawing)
        set({ selected: result.keys, selectedEdges: new Set() })
      },
      undo: () => {
        const { past, future, drawing, selected } = get()
        const back = past.at(-1)
        if (!back) return
        last = { same: "", at: 0 }
        set({ drawing: back, past: past.slice(0, -1), future: [drawing, ...future], selected: there(back, selected) })
      },
      redo: () => {
        const { past, future, drawing, selected } = get()
        const [forth, ...rest] = future
        if (!forth) return
        last = { same: "", at: 0 }
        set({ drawing: forth, past: [...past, drawing], future: rest, selected: there(forth, selected) })
      },
      markSaved: () => set({ saved: get().drawing }),
      go: (key, field) => {
        const count = (get().wanted?.count ?? 0) + 1
        set({ wanted: { key, field, count }, selected: new Set(key ? [key] : []), selectedEdges: new Set() })
      },
      touch: (key = "", field) => note(key, field),
      reveal: () => set({ revealed: true }),
    }
  })
}

export function isChanged({ drawing, saved }: Canvas): boolean {
  return drawing !== saved
}

type Noted = Pick<Canvas, "drawing" | "fresh" | "touched" | "revealed">

/** Whether a problem is only that the user has not got to a field of a new node or row yet. */
export function isToDo({ drawing, fresh, touched, revealed }: Noted, problem: GraphFinding): boolean {
  if (revealed || problem.severity !== "error") return false
  const { key = "", field } = placeOf(drawing, problem.path)
  const place = `${key} ${field}`
  if (!fresh.has(key) && ![...fresh].some((row) => row.includes(" ") && place.startsWith(row))) return false
  // The source of an input is the whole input; the replicas of a role belong to the list of roles.
  const parts = [`${place}.from`, `${place}[`]
  return ![...touched].some(
    (other) => other === place || place.startsWith(`${other}.`) || parts.some((part) => other.startsWith(part)),
  )
}

/** The selected nodes and the edges between them, to be copied. */
export function copyOf({ drawing, selected }: Canvas): Drawing | undefined {
  return selected.size ? part(drawing, selected) : undefined
}

export const CanvasContext = createContext<CanvasStore | undefined>(undefined)

export function useCanvasStore(): CanvasStore {
  const store = useContext(CanvasContext)
  if (!store) throw new Error("there is no canvas around this")
  return store
}

export function useCanvas<T>(choose: (canvas: Canvas) => T): T {
  return useStore(useCanvasStore(), choose)
}

export type { DrawnEdge }
