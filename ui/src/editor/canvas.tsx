/** The canvas that a graph is drawn on. */
import {
  type Edge,
  type FinalConnectionState,
  type OnConnect,
  type OnEdgesChange,
  type OnNodesChange,
  Panel,
  useReactFlow,
} from "@xyflow/react"
import { useCallback, useEffect, useMemo, useRef } from "react"
import { loadedClusters } from "@/api/options"
import type { GraphFinding } from "@/api/workflows"
import { note } from "@/components/toasts"
import { flowMarks } from "@/graph/control-flow"
import type { Position } from "@/graph/document"
import {
  canConnect,
  connected,
  type Drawing,
  type DrawnNode,
  edgeId,
  NODE_SIZE,
  placeOf,
  refusalOf,
} from "@/graph/drawing"
import { Flow } from "@/graph/flow"
import { CARD_SHAPE, type CardData, type CardNode, sameData } from "@/graph/node-card"
import { summaryOf } from "@/graph/node-fields"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { DRAGGED, nodeOfTemplate, type Template } from "./node-templates"
import { isToDo, useCanvas, useCanvasStore } from "./store"

/** Fits the graph to the screen whenever `fitOn` changes. */
export function CanvasPane({ fitOn }: { fitOn: number }) {
  const w = useTexts(editorTexts)
  const store = useCanvasStore()
  const canvas = useCanvas((canvas) => canvas)
  const { drawing, selected, selectedEdges, problems, fresh, touched, revealed, wanted } = canvas
  const { screenToFlowPosition, setCenter, getZoom } = useReactFlow()

  const counts = useMemo(() => {
    const noted = { drawing, fresh, touched, revealed }
    return counted(
      drawing,
      problems.filter((problem) => !isToDo(noted, problem)),
    )
  }, [drawing, problems, fresh, touched, revealed])
  const made = useRef(new WeakMap<DrawnNode, CardNode>())
  const nodes = useMemo(() => {
    const names = new Map(drawing.nodes.map((node) => [node.key, node.name]))
    const nameOf = (key: string) => names.get(key) ?? key.replace(/^name:/, "")
    return drawing.nodes.map((node) => card(made.current, node, selected.has(node.key), nameOf, counts.get(node.key)))
  }, [drawing.nodes, selected, counts])
  const edges = useMemo(
    () =>
      drawing.edges.map((edge): Edge => {
        const id = edgeId(edge)
        return { id, source: edge.from, target: edge.to, selected: selectedEdges.has(id) }
      }),
    [drawing.edges, selectedEdges],
  )

  const onNodesChange: OnNodesChange<CardNode> = useCallback(
    (changes) => {
      const canvas = store.getState()
      const places = new Map<string, Position>()
      const chosen = new Set(canvas.selected)
      let selects = false
      let settles = false
      for (const change of changes) {
        if (change.type === "position" && change.position) {
          places.set(change.id, change.position)
          settles ||= change.dragging === false
        } else if (change.type === "position") {
          settles ||= change.dragging === false
        } else if (change.type === "select") {
          selects = true
          if (change.selected) chosen.add(change.id)
          else chosen.delete(change.id)
        }
      }
      if (places.size) canvas.move(places)
      if (settles) canvas.settle()
      if (selects) canvas.select(chosen, canvas.selectedEdges)
    },
    [store],
  )

  const onEdgesChange: OnEdgesChange = useCallback(
    (changes) => {
      const canvas = store.getState()
      const chosen = new Set(canvas.selectedEdges)
      for (const change of changes) {
        if (change.type !== "select") continue
        if (change.selected) chosen.add(change.id)
        else chosen.delete(change.id)
      }
      canvas.select(canvas.selected, chosen)
    },
    [store],
  )

  const onConnect: OnConnect = useCallback(
    ({ source, target }) => {
      const canvas = store.getState()
      canvas.change(connected(canvas.drawing, { from: source, to: target }))
    },
    [store],
  )

  const onConnectEnd = useCallback(
    (_: unknown, { isValid, fromNode, toNode, fromHandle }: FinalConnectionState) => {
      if (isValid !== false || !fromNode || !toNode) return
      const [from, to] = fromHandle?.type === "target" ? [toNode.id, fromNode.id] : [fromNode.id, toNode.id]
      const refusal = refusalOf(store.getState().drawing, { from, to })
      if (refusal?.why === "cycle") note(w("refusedCycle", { names: refusal.names.join(" → ") }))
      else if (refusal) note(w(refusal.why === "same" ? "refusedSame" : "refusedExists"))
    },
    [store, w],
  )

  useEffect(() => {
    const node = wanted?.key && store.getState().drawing.nodes.find(({ key }) => key === wanted.key)
    if (!node) return
    const { width, height } = NODE_SIZE
    void setCenter(node.position.x + width / 2, node.position.y + height / 2, {
      zoom: Math.max(getZoom(), 0.8),
      duration: 200,
    })
  }, [wanted, setCenter, getZoom, store])

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: files and nodes can also be added with buttons.
    <div
      className="relative h-full min-h-0"
      data-testid="canvas"
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes(DRAGGED)) return
        event.preventDefault()
        event.dataTransfer.dropEffect = "copy"
      }}
      onDrop={(event) => {
        const text = event.dataTransfer.getData(DRAGGED)
        if (!text) return
        event.preventDefault()
        const place = screenToFlowPosition({ x: event.clientX, y: event.clientY })
        const position = { x: place.x - NODE_SIZE.width / 2, y: place.y - NODE_SIZE.height / 2 }
        store.getState().add(nodeOfTemplate(JSON.parse(text) as Template, position, loadedClusters()))
      }}
    >
      <Flow
        nodes={nodes}
        edges={edges}
        onNodesChange={onNodesChange}
        onEdgesChange={onEdgesChange}
        onConnect={onConnect}
        onConnectEnd={onConnectEnd}
        isValidConnection={({ source, target }) => canConnect(store.getState().drawing, { from: source, to: target })}
        deleteKeyCode={null}
        selectionKeyCode="Shift"
        multiSelectionKeyCode={["Shift", "Meta", "Control"]}
        connectionRadius={40}
        snapToGrid
        snapGrid={[4, 4]}
        fitOn={fitOn}
      >
        {drawing.nodes.length === 0 && (
          <Panel position="top-center" className="pointer-events-none mt-24! w-max max-w-full px-6 text-center">
            <p className="font-medium max-md:hidden">{w("emptyCanvas")}</p>
            <p className="font-medium md:hidden">{w("emptyCanvasPhone")}</p>
            <p className="text-muted-foreground">{w("emptyCanvasHelp")}</p>
          </Panel>
        )}
      </Flow>
    </div>
  )
}

interface Count {
  errors: number
  warnings: number
}

function counted(drawing: Drawing, problems: GraphFinding[]): Map<string, Count> {
  const found = new Map<string, Count>()
  for (const problem of problems) {
    const { key } = placeOf(drawing, problem.path)
    if (!key) continue
    const count = found.get(key) ?? { errors: 0, warnings: 0 }
    if (problem.severity === "error") count.errors += 1
    else count.warnings += 1
    found.set(key, count)
  }
  return found
}

/** Returns the same object for a node that looks the same, so that only changed nodes are rendered again. */
function card(
  made: WeakMap<DrawnNode, CardNode>,
  node: DrawnNode,
  selected: boolean,
  nameOf: (key: string) => string,
  count?: Count,
): CardNode {
  const before = made.get(node)
  const { errors = 0, warnings = 0 } = count ?? {}
  const data: CardData = {
    name: node.name,
    kind: node.kind ?? "plain",
    subtitle: summaryOf(node),
    ...flowMarks(node, nameOf),
    errors,
    warnings,
    editable: true,
  }
  if (before && before.selected === selected && sameData(before.data, data)) return before
  const fresh: CardNode = {
    id: node.key,
    type: "card",
    position: node.position,
    selected,
    ...CARD_SHAPE,
    ariaLabel: node.name,
    data,
  }
  made.set(node, fresh)
  return fresh
}
