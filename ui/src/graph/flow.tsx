/** Renders a graph, editable or not. */
import {
  Background,
  ControlButton,
  Controls,
  type Edge,
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
import { boundsOf, isCrowded, visibleBox } from "./geometry"
import { MiniMap } from "./mini-map"
import { type CardNode, NODE_TYPES } from "./node-card"
import { FarGraph, useFarHands } from "./painted-nodes"

import "@xyflow/react/dist/style.css"

const EDGE = {
  type: "default",
  markerEnd: { type: MarkerType.ArrowClosed, width: 18, height: 18, color: "var(--edge)" },
} as const

const MANY = 150
/** If more nodes than this are in view, they are painted instead of rendered as elements. */
const IN_VIEW = 120
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
  const hidden = useMemo(() => (far ? nodes.map((node) => ({ ...node, hidden: true })) : NO_NODES), [far, nodes])
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
        nodes={far ? hidden : nodes}
        edges={far ? NO_EDGES : edges}
        nodeTypes={NODE_TYPES}
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
