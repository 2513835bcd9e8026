/**
 * Scrolling through more rows than an element can be high. Browsers stop at about ten million pixels; beyond that, the
 * scroll bar stands for the whole list and the rows move below it.
 */
const MOST_PIXELS = 8_000_000

export interface Extent {
  /** The number of rows, the height of a row, and the visible height. */
  count: number
  row: number
  seen: number
}

/** The height of the scrolled element. */
export function elementHeight({ count, row }: Extent, most = MOST_PIXELS): number {
  return Math.min(count * row, most)
}

/** The largest offset of the rows. */
export function furthest({ count, row, seen }: Extent): number {
  return Math.max(0, count * row - seen)
}

/** The offset of the rows for a position of the scroll bar. */
export function offsetOf(scrolled: number, extent: Extent, most = MOST_PIXELS): number {
  const bar = elementHeight(extent, most) - extent.seen
  if (bar <= 0) return 0
  return Math.min(furthest(extent), Math.max(0, (scrolled / bar) * furthest(extent)))
}

/** The position of the scroll bar for an offset of the rows. */
export function scrolledTo(offset: number, extent: Extent, most = MOST_PIXELS): number {
  const far = furthest(extent)
  const bar = elementHeight(extent, most) - extent.seen
  return far ? (offset / far) * Math.max(0, bar) : 0
}

/** The rows to render: a few more than are visible. */
export function rowsAt(offset: number, { count, row, seen }: Extent, more = 10): { from: number; to: number } {
  const from = Math.max(0, Math.floor(offset / row) - more)
  return { from, to: Math.min(count, Math.ceil((offset + seen) / row) + more) }
}
