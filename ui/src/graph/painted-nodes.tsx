/** Nodes painted on a canvas, when too many are in view to be elements. */
import { type NodeChange, useReactFlow, useStoreApi } from "@xyflow/react"
import { type MouseEvent as ReactMouseEvent, type RefObject, useCallback, useEffect, useRef } from "react"
import { useIsDark } from "@/app/preferences"
import { NODE_SIZE } from "./drawing"
import { isInside, nodeAt, type View, visibleBox } from "./geometry"
import type { CardData, CardNode } from "./node-card"

const NAMES = {
  edge: "--edge",
  ring: "--ring",
  card: "--card",
  border: "--border",
  text: "--foreground",
  plain: "--edge",
  waiting: "--input",
  running: "--fill-running",
  succeeded: "--fill-succeeded",
  failed: "--fill-failed",
  wrong: "--destructive",
  doubtful: "--warning",
} as const

export type Colours = Record<keyof typeof NAMES, string>

export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element)
  return Object.fromEntries(
    Object.entries(NAMES).map(([name, variable]) => [name, style.getPropertyValue(variable).trim()]),
  ) as Colours
}

const MARKS = { added: "succeeded", removed: "failed", changed: "doubtful" } as const

export function fillOf({ state, mark, errors, warnings, found }: CardData, colours: Colours): string {
  if (found) return colours.doubtful
  if (errors) return colours.wrong
  if (mark) return colours[MARKS[mark]]
  if (state === "running" || state === "succeeded" || state === "failed") return colours[state]
  if (state) return colours.waiting
  return warnings ? colours.doubtful : colours.plain
}

export interface Line {
  source: string
  target: string
}

const REACH = 4 // pixels around a node that still count as the node

export function FarGraph({ nodes, edges }: { nodes: CardNode[]; edges: readonly Line[] }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const store = useStoreApi()
  const dark = useIsDark()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours depend on the theme.
  useEffect(() => {
    const target = canvas.current
    if (!target) return
    const colours = coloursOf(target)
    const ends = new Map(nodes.map((node) => [node.id, node.position]))
    let frame = 0
    const draw = () => {
      frame = 0
      const { transform, width, height } = store.getState()
      paint(target, { width, height, view: transform, nodes, edges, ends, colours })
    }
    const later = () => {
      frame ||= requestAnimationFrame(draw)
    }
    draw()
    const stop = store.subscribe((now, before) => {
      if (now.transform !== before.transform || now.width !== before.width || now.height !== before.height) later()
    })
    return () => {
      stop()
      cancelAnimationFrame(frame)
    }
  }, [nodes, edges, store, dark])
  return (
    <canvas ref={canvas} data-testid="far" aria-hidden className="pointer-events-none absolute inset-0 size-full" />
  )
}

interface Picture {
  width: number
  height: number
  view: View
  nodes: CardNode[]
  edges: readonly Line[]
  ends: Map<string, { x: number; y: number }>
  colours: Colours
}

function paint(canvas: HTMLCanvasElement, { width, height, view, nodes, edges, ends, colours }: Picture): void {
  const sharp = window.devicePixelRatio || 1
  const [w, h] = [Math.round(width * sharp), Math.round(height * sharp)]
  if (canvas.width !== w) canvas.width = w
  if (canvas.height !== h) canvas.height = h
  const context = canvas.getContext("2d")
  if (!context) return
  const [x, y, zoom] = view
  context.setTransform(1, 0, 0, 1, 0, 0)
  context.clearRect(0, 0, w, h)
  context.setTransform(sharp * zoom, 0, 0, sharp * zoom, sharp * x, sharp * y)
  const box = visibleBox(view, width, height)

  context.beginPath()
  for (const { source, target } of edges) {
    const [from, to] = [ends.get(source), ends.get(target)]
    if (!from || !to) continue
    const [top, bottom] = [from.y + NODE_SIZE.height, to.y]
    if (Math.max(top, bottom) < box.y || Math.min(top, bottom) > box.y + box.height) continue
    context.moveTo(from.x + NODE_SIZE.width / 2, top)
    context.lineTo(to.x + NODE_SIZE.width / 2, bottom)
  }
  context.lineWidth = Math.max(1.6, 0.8 / zoom)
  context.globalAlpha = 0.7
  context.strokeStyle = colours.edge
  context.stroke()
  context.globalAlpha = 1

  const least = 2 / zoom // at least two pixels wide
  const tall = Math.max(NODE_SIZE.height, least)
  const wide = Math.max(NODE_SIZE.width, least)
  const isReadable = zoom >= READABLE_ZOOM
  context.font = "500 15px ui-sans-serif, system-ui, sans-serif"
  context.textBaseline = "middle"
  let last = ""
  for (const node of nodes) {
    if (!isInside(node, box)) continue
    const fill = fillOf(node.data, colours)
    if (fill !== last || isReadable) context.fillStyle = last = fill
    if (isReadable) paintCard(context, node, colours)
    else context.fillRect(node.position.x, node.position.y, wide, tall)
    if (!node.selected) continue
    context.strokeStyle = colours.ring
    context.lineWidth = 3 / zoom
    context.strokeRect(node.position.x - 3 / zoom, node.position.y - 3 / zoom, wide + 6 / zoom, tall + 6 / zoom)
  }
}

/** From here on a node is painted with its name. */
const READABLE_ZOOM = 0.3
const BAR = 6

function paintCard(context: CanvasRenderingContext2D, { position, data }: CardNode, colours: Colours): void {
  const { x, y } = position
  const { width, height } = NODE_SIZE
  context.fillRect(x, y, width, height) // its border, in the colour of its state
  context.fillStyle = colours.card
  context.fillRect(x + BAR, y + 2, width - BAR - 2, height - 4)
  context.fillStyle = colours.text
  context.fillText(shortened(data.name), x + 18, y + height / 2, width - 28)
}

const MOST_LETTERS = 26

function shortened(name: string): string {
  return name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name
}

type Changes = (changes: NodeChange<CardNode>[]) => void

/** Handlers that select and drag painted nodes, with the same changes as elements report. For the surrounding element. */
export function useFarHands(
  on: boolean,
  around: RefObject<HTMLElement | null>,
  nodes: CardNode[],
  tell: Changes | undefined,
  draggable: boolean,
) {
  const { screenToFlowPosition, getZoom } = useReactFlow()
  const under = useCallback(
    (event: { clientX: number; clientY: number; target: EventTarget | null }) => {
      if (!(event.target instanceof Element) || !event.target.closest(".react-flow__pane")) return undefined
      return nodeAt(
        nodes,
        screenToFlowPosition({ x: event.clientX, y: event.clientY }, { snapToGrid: false }),
        REACH / getZoom(),
      )
    },
    [nodes, screenToFlowPosition, getZoom],
  )
  if (!on) return {}
  return {
    onMouseMove: (event: ReactMouseEvent) => {
      if (event.buttons || !around.current) return
      const node = under(event)
      around.current.title = node?.data.name ?? ""
      around.current.style.cursor = node ? "pointer" : ""
    },
    onMouseDownCapture: (event: ReactMouseEvent) => {
      const node = event.button === 0 && !event.shiftKey ? under(event) : undefined
      if (!node) return
      event.stopPropagation()
      if (draggable && tell) drag(event, node, getZoom(), tell)
    },
    onClickCapture: (event: ReactMouseEvent) => {
      const node = under(event)
      if (!node) return
      event.stopPropagation()
      const more = event.shiftKey || event.metaKey || event.ctrlKey
      const others = more ? [] : nodes.filter((each) => each.selected && each.id !== node.id)
      tell?.([
        ...others.map(({ id }) => ({ type: "select" as const, id, selected: false })),
        { type: "select", id: node.id, selected: more ? !node.selected : true },
      ])
    },
  }
}

function drag(down: ReactMouseEvent, { id, position }: CardNode, zoom: number, tell: Changes): void {
  const { clientX, clientY } = down
  let moved = false
  const move = (event: MouseEvent) => {
    const [x, y] = [event.clientX - clientX, event.clientY - clientY]
    moved ||= Math.hypot(x, y) > 2
    if (moved)
      tell([{ type: "position", id, position: { x: position.x + x / zoom, y: position.y + y / zoom }, dragging: true }])
  }
  const up = () => {
    window.removeEventListener("mousemove", move)
    window.removeEventListener("mouseup", up)
    if (moved) tell([{ type: "position", id, dragging: false }])
  }
  window.addEventListener("mousemove", move)
  window.addEventListener("mouseup", up)
}
