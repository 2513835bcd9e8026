/** The state of a list in the address bar: the page, the order and the filters. */

/**
 * Pages of a list that the API hands out by cursors. How one got here is kept in the address, so that a page can be
 * linked to and "back" works: the cursors of all pages up to this one, parted by commas.
 */
export interface PageTrail {
  cursor: string
  number: number
  next: (cursor: string) => string
  previous: string | undefined
}

export function readPages(pages: string | undefined): PageTrail {
  const trail = pages ? pages.split(",") : []
  return {
    cursor: trail.at(-1) ?? "",
    number: trail.length,
    next: (cursor) => [...trail, cursor].join(","),
    previous: trail.length ? trail.slice(0, -1).join(",") : undefined,
  }
}

interface Address {
  pages?: string | undefined
  sort?: string | undefined
}

/** `go` changes the address. Filters take the place of those before in the browser's history; pages do not. */
export function listState<A extends Address>(
  at: A,
  go: (change: (before: A) => A, replace: boolean) => void,
  usual: string,
  piece = 50,
) {
  const place = readPages(at.pages)
  const sort = at.sort ?? usual
  const filter = (change: Partial<A>) => go((before) => ({ ...before, pages: undefined, ...change }), true)
  return {
    filter,
    /** What the API is asked for. */
    asked: { sort, cursor: place.cursor, limit: piece },
    /** What a `Listing` is shown with. */
    shown: {
      place,
      piece,
      sort,
      onSort: (sort: string) => filter({ sort } as Partial<A>),
      onPages: (pages: string | undefined) => go((before) => ({ ...before, pages }), false),
    },
  }
}
