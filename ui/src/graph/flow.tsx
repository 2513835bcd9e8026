/** How every graph is drawn, whether it can be changed or not. */
import { Background, Controls, MarkerType, MiniMap, ReactFlow, type ReactFlowProps } from "@xyflow/react"
import "@xyflow/react/dist/style.css"
import { useIsDark } from "@/app/preferences"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import { type CardNode, NODE_TYPES } from "./node-card"

const EDGE = {
  type: "default",
  markerEnd: { type: MarkerType.ArrowClosed, width: 18, height: 18, color: "var(--edge)" },
} as const

const COLOURS: Record<string, string> = {
  running: "var(--fill-running)",
  succeeded: "var(--fill-succeeded)",
  failed: "var(--fill-failed)",
}

export function Flow({ children, ...rest }: ReactFlowProps<CardNode>) {
  const w = useWords(editorWords)
  const dark = useIsDark()
  const many = (rest.nodes?.length ?? 0) > 150
  return (
    <ReactFlow<CardNode>
      nodeTypes={NODE_TYPES}
      defaultEdgeOptions={EDGE}
      colorMode={dark ? "dark" : "light"}
      minZoom={0.05}
      maxZoom={2}
      fitView
      fitViewOptions={{ padding: 0.15, maxZoom: 1 }}
      onlyRenderVisibleElements={many}
      proOptions={{ hideAttribution: true }}
      ariaLabelConfig={{
        "controls.zoomIn.ariaLabel": w("zoomIn"),
        "controls.zoomOut.ariaLabel": w("zoomOut"),
        "controls.fitView.ariaLabel": w("fit"),
        "minimap.ariaLabel": w("miniMap"),
      }}
      className="[--xy-background-color:var(--background)] [--xy-edge-stroke-selected:var(--ring)] [--xy-edge-stroke-width:1.6] [--xy-edge-stroke:var(--edge)]"
      {...rest}
    >
      <Background gap={20} size={1.2} color="var(--border)" />
      <Controls showInteractive={false} position="bottom-left" />
      {(rest.nodes?.length ?? 0) > 6 && (
        <MiniMap
          pannable
          zoomable
          position="bottom-right"
          className="rounded-md border"
          style={{ width: 160, height: 110 }}
          nodeColor={(node) => COLOURS[String(node.data.state)] ?? "var(--muted-foreground)"}
          bgColor="var(--card)"
        />
      )}
      {children}
    </ReactFlow>
  )
}
