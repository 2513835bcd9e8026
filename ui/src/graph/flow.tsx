/** Renders a graph, editable or not. */
import {
  Background,
  BaseEdge,
  ControlButton,
  Controls,
  type Edge,
  type EdgeProps,
  getViewportForBounds,
  MarkerType,
  ReactFlow,
  type ReactFlowProps,
  type ReactFlowState,
  useReactFlow,
  useStore,
  useStoreApi,
} from "@xyflow/react"
import { Maximize } from "lucide-react"
import { useCallback, useEffect, useMemo, useRef, useState } from "react"
import { useIsDark } from "@/app/preferences"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import type { Position } from "./document"
import { boundsOf, isCrowded, near, surroundings, visibleBox } from "./geometry"
import { MiniMap } from "./mini-map"
import { type CardNode, NODE_TYPES } from "./node-card"
import { FarGraph, useFarHands } from "./painted-nodes"
import { roundedPath, routeAround } from "./routing"

import "@xyflow/react/dist/style.css"

const EDGE = {
  type: "default",
  markerEnd: { type: MarkerType.ArrowClosed, width: 18, height: 18, color: "var(--edge)" },
} as const

/** If there are more nodes than this, edges are not led around them, and only what is visible is rendered. */
const MANY = 150
/** If more nodes than this are in view, they are painted instead of rendered as elements. */
const IN_VIEW = 60
const ZOOM = { min: 0.01, max: 2 }
const NO_NODES: CardNode[] = []
const NO_EDGES: Edge[] = []

interface Props extends ReactFlowProps<CardNode> {
  nodes: CardNode[]
  edges: Edge[]
  /** Fits the graph to the screen whenever this changes. */
  fitOn?: unknown
}

/** Needs a ReactFlowProvider. */
export function Flow({ children, nodes, edges, fitOn, ...rest }: Props) {
  const w = useTexts(editorTexts)
  const dark = useIsDark()
  const around = useRef<HTMLDivElement>(null)
  const crowded = useCallback(
    ({ transform, width, height }: ReactFlowState) =>
      nodes.length > MANY && (width === 0 || isCrowded(nodes, visibleBox(transform, width, height), IN_VIEW)),
    [nodes],
  )
  // Renders nothing until the view is known.
  const [fitted, setFitted] = useState(!fitOn)
  const far = useStore(crowded) || (!fitted && nodes.length > MANY)
  const lines = useRoutes(nodes, edges)
  const close = useNear(nodes, lines, far)
  const hands = useFarHands(far, around, nodes, rest.onNodesChange, rest.nodesDraggable !== false)
  const fit = useFit(nodes)
  const sized = useStore((flow) => flow.width > 0 && flow.height > 0 && flow.panZoom !== null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: only on request; nodes that move do not move the view.
  useEffect(() => {
    if (!sized || !fitOn) return
    fit()
    setFitted(true)
  }, [sized, fitOn])
  return (
    <div ref={around} className="size-full" {...hands}>
      <ReactFlow<CardNode>
        nodes={close.nodes}
        edges={close.edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        defaultEdgeOptions={EDGE}
        colorMode={dark ? "dark" : "light"}
        minZoom={ZOOM.min}
        maxZoom={ZOOM.max}
        onlyRenderVisibleElements={nodes.length > MANY}
        proOptions={{ hideAttribution: true }}
        ariaLabelConfig={{
          "controls.zoomIn.ariaLabel": w("zoomIn"),
          "controls.zoomOut.ariaLabel": w("zoomOut"),
        }}
        className="[--xy-background-color:var(--background)] [--xy-edge-stroke-selected:var(--ring)] [--xy-edge-stroke-width:1.6] [--xy-edge-stroke:var(--edge)]"
        {...rest}
      >
        {!far && <Background gap={20} size={1.2} color="var(--border)" />}
        {far && fitted && <FarGraph nodes={nodes} edges={edges} />}
        <Controls showInteractive={false} showFitView={false} position="bottom-left">
          <ControlButton title={w("fit")} aria-label={w("fit")} onClick={() => fit(200)}>
            <Maximize className="fill-none!" aria-hidden />
          </ControlButton>
        </Controls>
        {nodes.length > 6 && <MiniMap nodes={nodes} label={w("miniMap")} />}
        {children}
      </ReactFlow>
    </div>
  )
}

/** What is handed to React Flow: of a large graph only what is near, because taking in all of it takes long. */
function useNear(nodes: CardNode[], edges: Edge[], far: boolean): { nodes: CardNode[]; edges: Edge[] } {
  const isAll = nodes.length <= MANY
  const box = useStore(
    ({ transform, width, height }) => (far || isAll ? undefined : surroundings(transform, width, height)),
    (a, b) => JSON.stringify(a) === JSON.stringify(b),
  )
  return useMemo(() => {
    if (far) return { nodes: NO_NODES, edges: NO_EDGES }
    return box ? near(nodes, edges, box) : { nodes, edges }
  }, [nodes, edges, far, box])
}

interface Route extends Record<string, unknown> {
  /** Its corners, with both ends. */
  points: Position[]
}

function RoutedEdge({ id, sourceX, sourceY, targetX, targetY, data, markerEnd }: EdgeProps<Edge<Route>>) {
  const inner = data?.points.slice(1, -1) ?? []
  const path = roundedPath([{ x: sourceX, y: sourceY }, ...inner, { x: targetX, y: targetY }])
  return <BaseEdge id={id} path={path} markerEnd={markerEnd} />
}

const EDGE_TYPES = { routed: RoutedEdge }

/** Leads edges around nodes. They are routed again when a node has moved. */
function useRoutes(nodes: CardNode[], edges: Edge[]): Edge[] {
  const known = useRef(new Map<string, { key: string; edge: Edge; routed: Edge }>())
  return useMemo(() => {
    if (nodes.length > MANY) return edges
    const before = known.current
    known.current = new Map()
    const byId = new Map(nodes.map((node) => [node.id, node]))
    const places = nodes.map(({ position }) => `${Math.round(position.x)},${Math.round(position.y)}`).join(" ")
    return edges.map((edge) => {
      const [from, to] = [byId.get(edge.source), byId.get(edge.target)]
      if (!from || !to) return edge
      const last = before.get(edge.id)
      if (last?.key === places && last.edge === edge) {
        known.current.set(edge.id, last)
        return last.routed
      }
      const others = nodes.filter((node) => node !== from && node !== to && node.data.kind !== "join")
      const points = routeAround(from, to, others)
      const routed = points ? { ...edge, type: "routed", data: { points } } : edge
      known.current.set(edge.id, { key: places, edge, routed })
      return routed
    })
  }, [nodes, edges])
}

/** Fits these nodes to the screen, whether they are elements or painted. */
export function useFit(nodes: CardNode[]): (milliseconds?: number) => void {
  const { setViewport } = useReactFlow()
  const store = useStoreApi()
  const now = useRef(nodes)
  now.current = nodes
  return useCallback(
    (duration = 0) => {
      const { width, height } = store.getState()
      if (!now.current.length || !width) return
      void setViewport(getViewportForBounds(boundsOf(now.current), width, height, ZOOM.min, 1, 0.15), { duration })
    },
    [setViewport, store],
  )
}
