/**
 * Pages of a list that the API hands out by cursors. How one got here is kept in the address, so that a page can be
 * linked to and "back" works: the cursors of all pages up to this one, parted by commas.
 */
export interface Pieces {
  cursor: string
  number: number
  next: (cursor: string) => string
  previous: string | undefined
}

export function pieces(pages: string | undefined): Pieces {
  const trail = pages ? pages.split(",") : []
  return {
    cursor: trail.at(-1) ?? "",
    number: trail.length,
    next: (cursor) => [...trail, cursor].join(","),
    previous: trail.length ? trail.slice(0, -1).join(",") : undefined,
  }
}
