/** Scrolling through more rows than an element can be high. Browsers stop at about ten million pixels; beyond that, the
 scroll bar stands for the whole list and the rows move below it. */

/**
 * Scrolling through more rows than an element can be high. Browsers stop at some ten million pixels; beyond, the scroll bar
 * stands for the whole and the rows move beneath it.
 */
const MOST_PIXELS = 8_000_000

export interface Extent {
  /** Rows, and the height of each and of what is seen of them. */
  count: number
  row: number
  seen: number
}

/** How high the element is that has the scroll bar. */
export function elementHeight({ count, row }: Extent, most = MOST_PIXELS): number {
  return Math.min(count * row, most)
}

/** How far all rows can be moved. */
export function furthest({ count, row, seen }: Extent): number {
  return Math.max(0, count * row - seen)
}

/** Where the rows are when the scroll bar is there. */
export function offsetOf(scrolled: number, extent: Extent, most = MOST_PIXELS): number {
  const bar = elementHeight(extent, most) - extent.seen
  if (bar <= 0) return 0
  return Math.min(furthest(extent), Math.max(0, (scrolled / bar) * furthest(extent)))
}

/** Where the scroll bar is when the rows are there. */
export function scrolledTo(offset: number, extent: Extent, most = MOST_PIXELS): number {
  const far = furthest(extent)
  const bar = elementHeight(extent, most) - extent.seen
  return far ? (offset / far) * Math.max(0, bar) : 0
}

/** Rows to be drawn, a few more than are seen. */
export function rowsAt(offset: number, { count, row, seen }: Extent, more = 10): { from: number; to: number } {
  const from = Math.max(0, Math.floor(offset / row) - more)
  return { from, to: Math.min(count, Math.ceil((offset + seen) / row) + more) }
}
