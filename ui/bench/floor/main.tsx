/** React Flow alone with as many nodes: no server, no layout, no state of ours. What it takes is the floor. */
import { ReactFlow } from "@xyflow/react"
import { createRoot } from "react-dom/client"
import "@xyflow/react/dist/style.css"
import { rows } from "../shape"

const { names, edges } = rows(Number(new URLSearchParams(location.search).get("nodes")))
const nodes = names.map((name, index) => ({
  id: name,
  width: 232,
  height: 60,
  position: { x: ((index + 9) % 10) * 268, y: Math.ceil(index / 10) * 116 },
  data: { label: name },
}))
const lines = edges.map(({ from, to }) => ({ id: `${from}>${to}`, source: from, target: to }))

createRoot(document.getElementById("root") as HTMLElement).render(
  <ReactFlow defaultNodes={nodes} defaultEdges={lines} minZoom={0.01} fitView onlyRenderVisibleElements />,
)
