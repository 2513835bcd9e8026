/** The state of a list in the address bar: the page, the order and the filters. */

/**
 * The pages of a list that the API pages by cursors. The address keeps the cursors of all pages up to this one, separated
 * by commas, so that a page can be linked and "previous" works.
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
  q?: string | undefined
  pages?: string | undefined
  sort?: string | undefined
}

/** What is in the address of a list and filters nothing. */
const NO_FILTERS: ReadonlySet<string> = new Set(["pages", "sort", "tab"])

/** `navigate` changes the address. Filters replace the entry in the browser's history; pages add one. */
export function listState<A extends Address>(
  at: A,
  navigate: (to: { search: (before: A) => A; replace: boolean }) => unknown,
  usual: string,
  piece = 50,
) {
  const place = readPages(at.pages)
  const sort = at.sort ?? usual
  const filter = (change: Partial<A>) =>
    navigate({ search: (before) => ({ ...before, pages: undefined, ...change }), replace: true })
  const filters = Object.entries(at).filter(([name, value]) => value && !NO_FILTERS.has(name))
  const without = Object.fromEntries(filters.map(([name]) => [name, undefined])) as Partial<A>
  return {
    filter,
    q: at.q ?? "",
    find: (q: string) => filter({ q: q || undefined } as Partial<A>),
    /** Clears the filters; undefined without filters. */
    clear: filters.length ? () => filter(without) : undefined,
    /** The query for the API. */
    asked: { sort, cursor: place.cursor, limit: piece },
    /** The properties of a `Listing`. */
    shown: {
      place,
      piece,
      sort,
      onSort: (sort: string) => filter({ sort } as Partial<A>),
      onPages: (pages: string | undefined) => navigate({ search: (before) => ({ ...before, pages }), replace: false }),
    },
  }
}
