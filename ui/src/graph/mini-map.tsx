/** The mini-map: the whole graph with the visible part marked. It is painted, so a thousand nodes cost as little as ten. */
import { Panel, useReactFlow, useStoreApi } from "@xyflow/react"
import { type PointerEvent, useEffect, useRef } from "react"
import { useIsDark } from "@/app/preferences"
import { NODE_SIZE } from "./drawing"
import { type Box, boundsOf, unionOf, visibleBox } from "./geometry"
import type { CardNode } from "./node-card"
import { type Colours, coloursOf, fillOf } from "./painted-nodes"

const SIZE = { width: 160, height: 110 }
const EDGE = 6

/** Converts points of the plane to points of the map. */
function scaled(box: Box) {
  const zoom = Math.min((SIZE.width - 2 * EDGE) / box.width, (SIZE.height - 2 * EDGE) / box.height)
  const x = (SIZE.width - box.width * zoom) / 2 - box.x * zoom
  const y = (SIZE.height - box.height * zoom) / 2 - box.y * zoom
  return { zoom, x, y }
}

/** The part of the plane that a whole map shows. */
function boxOf({ zoom, x, y }: ReturnType<typeof scaled>): Box {
  return { x: -x / zoom, y: -y / zoom, width: SIZE.width / zoom, height: SIZE.height / zoom }
}

/** All nodes, painted once: ten thousand in every frame would be too many. */
function pictureOf(nodes: readonly CardNode[], bounds: Box, colours: Colours, sharp: number) {
  const canvas = document.createElement("canvas")
  canvas.width = SIZE.width * sharp
  canvas.height = SIZE.height * sharp
  const scale = scaled(bounds)
  const { zoom, x, y } = scale
  const context = canvas.getContext("2d")
  context?.setTransform(sharp, 0, 0, sharp, 0, 0)
  const [wide, tall] = [Math.max(NODE_SIZE.width * zoom, 1.5), Math.max(NODE_SIZE.height * zoom, 1.5)]
  if (context)
    for (const { position, data } of nodes) {
      context.fillStyle = fillOf(data, colours)
      context.fillRect(position.x * zoom + x, position.y * zoom + y, wide, tall)
    }
  return { canvas, scale }
}

export function MiniMap({ nodes, label }: { nodes: CardNode[]; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const scale = useRef({ zoom: 1, x: 0, y: 0 })
  const store = useStoreApi()
  const dark = useIsDark()
  const { setCenter } = useReactFlow()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours depend on the theme.
  useEffect(() => {
    const context = canvas.current?.getContext("2d")
    if (!canvas.current || !context) return
    const colours = coloursOf(canvas.current)
    const bounds = boundsOf(nodes)
    const sharp = window.devicePixelRatio || 1
    canvas.current.width = SIZE.width * sharp
    canvas.current.height = SIZE.height * sharp
    const picture = pictureOf(nodes, bounds, colours, sharp)
    let frame = 0
    const draw = () => {
      frame = 0
      const { transform, width, height } = store.getState()
      const view = visibleBox(transform, width, height)
      scale.current = scaled(unionOf(bounds, view))
      const { zoom, x, y } = scale.current
      context.setTransform(sharp, 0, 0, sharp, 0, 0)
      context.clearRect(0, 0, SIZE.width, SIZE.height)
      const around = boxOf(picture.scale)
      context.drawImage(
        picture.canvas,
        around.x * zoom + x,
        around.y * zoom + y,
        around.width * zoom,
        around.height * zoom,
      )
      context.strokeStyle = colours.ring
      context.lineWidth = 1.5
      context.strokeRect(view.x * zoom + x, view.y * zoom + y, view.width * zoom, view.height * zoom)
    }
    const later = () => {
      frame ||= requestAnimationFrame(draw)
    }
    later()
    const stop = store.subscribe((now, before) => {
      if (now.transform !== before.transform || now.width !== before.width || now.height !== before.height) later()
    })
    return () => {
      stop()
      cancelAnimationFrame(frame)
    }
  }, [nodes, store, dark])

  const go = (event: PointerEvent<HTMLCanvasElement>) => {
    if (!(event.buttons & 1)) return
    const box = event.currentTarget.getBoundingClientRect()
    const { zoom, x, y } = scale.current
    const at = store.getState().transform[2]
    void setCenter((event.clientX - box.x - x) / zoom, (event.clientY - box.y - y) / zoom, { zoom: at })
  }
  return (
    <Panel position="bottom-right" className="max-sm:hidden!">
      <canvas
        ref={canvas}
        role="img"
        aria-label={label}
        className="block cursor-pointer touch-none rounded-md border bg-card"
        style={SIZE}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId)
          go(event)
        }}
        onPointerMove={go}
      />
    </Panel>
  )
}
