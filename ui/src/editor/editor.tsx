/** The canvas editor: palette, canvas, side form, problems. */
import { useQuery } from "@tanstack/react-query"
import { ReactFlowProvider, useReactFlow } from "@xyflow/react"
import { CopyPlus, LayoutGrid, Redo2, Trash2, Undo2 } from "lucide-react"
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react"
import { useStore } from "zustand"
import { clustersQuery, loadedClusters } from "@/api/options"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { noteError } from "@/components/toasts"
import { NODE_SIZE, nodeOf } from "@/graph/drawing"
import { freePlace } from "@/graph/geometry"
import { layout } from "@/graph/layout"
import { editorTexts } from "@/i18n/editor"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { CanvasPane } from "./canvas"
import { NodeForm } from "./node-form"
import { nodeOfTemplate, type Template } from "./node-templates"
import { Palette } from "./palette"
import { Parameters } from "./parameters"
import { ProblemList, useGraphCheck } from "./problems"
import { duplicate, useShortcuts } from "./shortcuts"
import { CanvasContext, type CanvasStore, isToDo } from "./store"

interface Props {
  store: CanvasStore
  /** Shown in the side form while no node is selected: names and descriptions. */
  basics: ReactNode
  onSave: () => void
  /** The nodes have no positions yet. */
  arrange?: boolean
}

export function Editor(props: Props) {
  return (
    <CanvasContext.Provider value={props.store}>
      <ReactFlowProvider>
        <Panes {...props} />
      </ReactFlowProvider>
    </CanvasContext.Provider>
  )
}

function Panes({ store, basics, onSave, arrange }: Props) {
  const w = useTexts(editorTexts)
  const failed = useGraphCheck(store)
  useQuery(clustersQuery) // for the task of a new training node
  useShortcuts(store, onSave)
  const { screenToFlowPosition, flowToScreenPosition } = useReactFlow()
  const [fits, setFits] = useState(() => (store.getState().drawing.nodes.length ? 1 : 0))
  const [pane, setPane] = useState<Pane>("canvas")
  const middle = useRef<HTMLDivElement>(null)
  const wanted = useStore(store, (canvas) => canvas.wanted)
  useEffect(() => {
    if (wanted?.field) setPane("form")
  }, [wanted])

  const arrangeAll = useCallback(async () => {
    const { drawing, move, settle } = store.getState()
    try {
      const places = await layout(
        drawing.nodes.map((node) => node.key),
        drawing.edges,
      )
      move(places)
      settle()
      setFits((count) => count + 1)
    } catch (error) {
      noteError(error)
    }
  }, [store])

  useEffect(() => {
    if (arrange) void arrangeAll().then(() => store.setState({ past: [], future: [] }))
  }, [arrange, arrangeAll, store])

  const add = (template: Template) => {
    const box = middle.current?.getBoundingClientRect()
    if (!box) return
    const { drawing, add } = store.getState()
    const place = screenToFlowPosition({ x: box.x + box.width / 2, y: box.y + box.height / 3 })
    const position = freePlace(drawing.nodes, { x: place.x - NODE_SIZE.width / 2, y: place.y })
    const key = add(nodeOfTemplate(template, position, loadedClusters()))
    setPane("canvas")
    const { x, y } = flowToScreenPosition(position)
    const isVisible = x >= box.left && y >= box.top && x < box.right - 100 && y < box.bottom - 40
    if (!isVisible) store.getState().go(key, "")
  }

  return (
    <div className="relative grid min-h-0 flex-1 grid-cols-[208px_minmax(0,1fr)_352px] max-xl:grid-cols-[minmax(0,1fr)_300px] max-xl:grid-rows-[auto_minmax(0,1fr)] max-md:grid-cols-1">
      <PaneSwitch pane={pane} setPane={setPane} />
      <div
        className={classes(
          "min-h-0 border-r bg-card max-xl:absolute max-xl:top-10 max-xl:bottom-0 max-xl:left-0 max-xl:z-20 max-xl:w-64 max-xl:shadow-lg max-md:w-full",
          pane !== "nodes" && "max-xl:hidden",
        )}
      >
        <Palette add={add} />
      </div>
      <div className={classes("flex min-h-0 min-w-0 flex-col", pane === "form" && "max-md:hidden")}>
        <Tools store={store} arrange={arrangeAll} />
        <section ref={middle} aria-label={w("canvas")} className="min-h-0 flex-1">
          <CanvasPane fitOn={fits} />
        </section>
        <ProblemList failed={failed} />
      </div>
      <Side store={store} basics={basics} className={pane === "form" ? "" : "max-md:hidden"} />
    </div>
  )
}

type Pane = "nodes" | "canvas" | "form"

/** On small screens: what is shown. On a tablet the form always is, and the nodes cover a part of the canvas. */
function PaneSwitch({ pane, setPane }: { pane: Pane; setPane: (pane: Pane) => void }) {
  const w = useTexts(editorTexts)
  const choice = (of: Pane, label: string, className?: string) => (
    <button
      type="button"
      aria-pressed={pane === of}
      onClick={() => setPane(pane === of ? "canvas" : of)}
      className={classes(
        "rounded-md px-3 py-1.5 text-[13px]",
        pane === of ? "bg-accent font-medium text-primary" : "hover:bg-muted",
        className,
      )}
    >
      {label}
    </button>
  )
  return (
    <div
      role="group"
      aria-label={w("pane")}
      className="col-span-full flex h-10 items-center gap-1 border-b bg-card px-2 xl:hidden"
    >
      {choice("nodes", w("paneNodes"))}
      {choice("canvas", w("canvas"), "md:hidden")}
      {choice("form", w("paneForm"), "md:hidden")}
    </div>
  )
}

function Tools({ store, arrange }: { store: CanvasStore; arrange: () => void }) {
  const w = useTexts(editorTexts)
  const { past, future, selected, selectedEdges, drawing, undo, redo, removeSelected } = useStore(store)
  return (
    <div role="toolbar" aria-label={w("canvas")} className="flex items-center gap-1 border-b bg-card px-2 py-1">
      <Button look="ghost" size="icon" aria-label={w("undo")} title={w("undo")} disabled={!past.length} onClick={undo}>
        <Undo2 />
      </Button>
      <Button
        look="ghost"
        size="icon"
        aria-label={w("redo")}
        title={w("redo")}
        disabled={!future.length}
        onClick={redo}
      >
        <Redo2 />
      </Button>
      <Button look="ghost" size="small" disabled={drawing.nodes.length < 2} onClick={arrange}>
        <LayoutGrid />
        {w("layout")}
      </Button>
      <Button
        look="ghost"
        size="icon"
        aria-label={w("duplicate")}
        title={w("duplicate")}
        disabled={!selected.size}
        onClick={() => duplicate(store)}
      >
        <CopyPlus />
      </Button>
      <Button
        look="ghost"
        size="icon"
        aria-label={w("deleteSelected")}
        title={w("deleteSelected")}
        disabled={!selected.size && !selectedEdges.size}
        onClick={removeSelected}
      >
        <Trash2 />
      </Button>
      <span className="ml-auto hidden truncate text-xs text-muted-foreground xl:inline">{w("shortcuts")}</span>
    </div>
  )
}

function Side({ store, basics, className }: { store: CanvasStore; basics: ReactNode; className: string }) {
  const w = useTexts(editorTexts)
  const language = usePreferences((all) => all.language)
  const canvas = useStore(store)
  const { drawing, selected, wanted, change, changeNode, touch } = canvas
  const problems = canvas.problems.filter((problem) => !isToDo(canvas, problem))
  const side = useRef<HTMLElement>(null)
  const [only] = selected
  const node = selected.size === 1 ? nodeOf(drawing, only) : undefined
  useFocus(side, wanted)
  const faults = new Map<string, string>()
  for (const problem of problems)
    if (!faults.has(problem.path)) faults.set(problem.path, serverMessage(problem, language))
  return (
    <aside
      ref={side}
      tabIndex={0}
      aria-label={node ? w("nodeForm") : w("settings")}
      onBlur={({ target }) => !node && target.dataset.field && touch(undefined, target.dataset.field)}
      className={classes("min-h-0 overflow-y-auto border-l bg-card", className)}
    >
      {node ? (
        <NodeForm
          key={node.key}
          drawing={drawing}
          node={node}
          problems={problems}
          change={(what, field) => changeNode(node.key, what, field)}
          redraw={change}
          touch={(field) => touch(node.key, field)}
        />
      ) : selected.size > 1 ? (
        <div className="p-4">
          <p className="font-medium">{w("severalSelected", { n: selected.size })}</p>
          <p className="text-muted-foreground">{w("severalHelp")}</p>
        </div>
      ) : (
        <>
          {basics}
          <Parameters drawing={drawing} change={change} fault={(field) => faults.get(field)} />
        </>
      )}
    </aside>
  )
}

/** Moves the cursor to the field with a problem. */
function useFocus(
  side: React.RefObject<HTMLElement | null>,
  wanted: { field: string; count: number } | undefined,
): void {
  useEffect(() => {
    if (!wanted || !side.current) return
    let best: HTMLElement | undefined
    for (const each of side.current.querySelectorAll<HTMLElement>("[data-field]")) {
      const field = each.dataset.field ?? ""
      if (wanted.field.startsWith(field) && field.length > (best?.dataset.field?.length ?? 0)) best = each
    }
    best?.focus()
    best?.scrollIntoView({ block: "nearest" })
  }, [wanted, side])
}
