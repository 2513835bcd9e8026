/** A read-only graph: a version, or a run that is updated live. */
import { ReactFlowProvider, useReactFlow } from "@xyflow/react"
import { useEffect, useMemo, useRef, useState } from "react"
import { Loading } from "@/components/feedback"
import { flowMarks } from "./control-flow"
import type { GraphDocument, Position } from "./document"
import { NODE_SIZE } from "./drawing"
import { Flow } from "./flow"
import { layout } from "./layout"
import { CARD_SHAPE, type CardData, type CardNode, sameData } from "./node-card"
import { summaryOf } from "./node-fields"

const NOWHERE: Position = { x: 0, y: 0 }

interface Props {
  document: GraphDocument
  selected?: string
  onSelect?: (name: string | undefined) => void
  /** More data for the cards, by the name of the node. */
  extra?: (name: string) => Partial<CardData>
  /** Always use the automatic layout, even if the nodes have positions. */
  arranged?: boolean
  /** Move the view to the selected node. */
  center?: boolean
}

/** Nodes are identified by their names, which cannot change here. */
export function GraphView(props: Props) {
  return (
    <ReactFlowProvider>
      <View {...props} />
    </ReactFlowProvider>
  )
}

function View({ document, selected, onSelect, extra, arranged, center }: Props) {
  const places = usePlaces(document, arranged)
  const { setCenter, getZoom } = useReactFlow()
  useEffect(() => {
    const place = center && selected ? places?.get(selected) : undefined
    if (!place) return
    const { width, height } = NODE_SIZE
    void setCenter(place.x + width / 2, place.y + height / 2, { zoom: Math.max(getZoom(), 0.8), duration: 200 })
  }, [center, selected, places, setCenter, getZoom])
  const made = useRef(new Map<string, CardNode>())
  const nodes = useMemo(() => {
    if (!places) return []
    // A node that looks the same stays the same object, so that only changed nodes are rendered again.
    const kept = made.current
    return (document.nodes ?? []).map((node): CardNode => {
      const more = extra?.(node.name)
      const data: CardData = {
        name: node.name,
        kind: node.kind ?? "plain",
        subtitle: more?.subtitle ?? summaryOf(node),
        ...(node.condition || node.loop || node.timeout ? flowMarks(node) : undefined),
        ...more,
      }
      const position = places.get(node.name) ?? NOWHERE
      const chosen = node.name === selected
      const before = kept.get(node.name)
      if (before && before.position === position && before.selected === chosen && sameData(before.data, data))
        return before
      const ariaLabel = [data.name, data.stateText].filter(Boolean).join(", ")
      const fresh: CardNode = {
        id: node.name,
        type: "card",
        position,
        data,
        ...CARD_SHAPE,
        selected: chosen,
        ariaLabel,
      }
      kept.set(node.name, fresh)
      return fresh
    })
  }, [document, places, extra, selected])
  const edges = useMemo(
    () =>
      (document.edges ?? []).map(({ from, to }) => ({
        id: `${from}>${to}`,
        source: from,
        target: to,
        focusable: false,
      })),
    [document],
  )
  if (!places) return <Loading className="h-full" />
  return (
    <Flow
      nodes={nodes}
      edges={edges}
      nodesDraggable={false}
      nodesConnectable={false}
      edgesFocusable={false}
      deleteKeyCode={null}
      onPaneClick={() => onSelect?.(undefined)}
      onNodesChange={(changes) => {
        for (const change of changes) if (change.type === "select" && change.selected) onSelect?.(change.id)
      }}
      fitOn={places}
    />
  )
}

function usePlaces(document: GraphDocument, arranged = false): Map<string, Position> | undefined {
  const nodes = document.nodes ?? []
  const drawn = !arranged && nodes.every((node) => node.position)
  const [found, setFound] = useState<Map<string, Position>>()
  // biome-ignore lint/correctness/useExhaustiveDependencies: `nodes` are the document's.
  const shape = useMemo(
    () => JSON.stringify([nodes.map((node) => [node.name, node.position]), document.edges]),
    [document],
  )
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` is what the layout depends on.
  useEffect(() => {
    let left = false
    if (drawn) setFound(new Map(nodes.map((node) => [node.name, node.position as Position])))
    else
      void layout(
        nodes.map((node) => node.name),
        document.edges ?? [],
      ).then((places) => !left && setFound(places))
    return () => {
      left = true
    }
  }, [shape, drawn])
  return found
}
