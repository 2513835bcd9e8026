/** Rows of which only those in view exist, however many there are. */
import { type RefObject, useCallback, useLayoutEffect, useRef, useState, type WheelEvent } from "react"
import { type Extent, elementHeight, furthest, offsetOf, rowsAt, scrolledTo } from "@/lib/scroll"

export interface Rows {
  /** What the scrolled element's content is high, and which rows are in it, the first of them so far down. */
  height: number
  from: number
  to: number
  top: number
  show: (row: number, align: "middle" | "end") => void
  onScroll: () => void
  onWheel: (event: WheelEvent) => void
}

export function useRows(box: RefObject<HTMLElement | null>, count: number, row: number): Rows {
  const [seen, setSeen] = useState(600)
  const [offset, setOffset] = useState(0)
  const expected = useRef(-1)
  const extent: Extent = { count, row, seen }
  const now = useRef({ extent, offset })
  now.current = { extent, offset: Math.min(offset, furthest(extent)) }

  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    const watch = new ResizeObserver(() => setSeen(element.clientHeight))
    watch.observe(element)
    setSeen(element.clientHeight)
    return () => watch.disconnect()
  }, [box])

  const move = useCallback(
    (to: number) => {
      const { extent } = now.current
      const offset = Math.min(furthest(extent), Math.max(0, to))
      now.current.offset = offset
      setOffset(offset)
      if (!box.current) return
      box.current.scrollTop = scrolledTo(offset, extent)
      expected.current = box.current.scrollTop
    },
    [box],
  )

  // More rows may mean another height, and with it another place for the scroll bar.
  useLayoutEffect(() => {
    const element = box.current
    if (!element || count * row <= elementHeight({ count, row, seen })) return
    element.scrollTop = scrolledTo(now.current.offset, now.current.extent)
    expected.current = element.scrollTop
  }, [count, row, seen, box])

  const onScroll = useCallback(() => {
    const element = box.current
    if (!element || Math.abs(element.scrollTop - expected.current) < 1) return
    expected.current = -1
    setOffset(offsetOf(element.scrollTop, now.current.extent))
  }, [box])

  const scaled = count * row > elementHeight(extent)
  const onWheel = useCallback(
    (event: WheelEvent) => {
      // The scroll bar stands for so much that a turn of the wheel would skip pages.
      if (scaled && event.deltaY && !event.ctrlKey)
        move(now.current.offset + event.deltaY * (event.deltaMode === 1 ? row : 1))
    },
    [move, row, scaled],
  )
  const show = useCallback(
    (number: number, align: "middle" | "end") => {
      const { seen } = now.current.extent
      move(align === "end" ? (number + 1) * row - seen : (number + 0.5) * row - seen / 2)
    },
    [move, row],
  )
  const place = now.current.offset
  const { from, to } = rowsAt(place, extent)
  const bar = scrolledTo(place, extent)
  return { height: elementHeight(extent), from, to, top: bar - place + from * row, show, onScroll, onWheel }
}
