/** Where one is in a list: on which page, in which order, with which filters. All of it is in the address. */
import { pieces } from "./pieces"

interface Address {
  pages?: string | undefined
  sort?: string | undefined
}

/** `go` changes the address. Filters take the place of those before in the browser's history; pages do not. */
export function browsing<A extends Address>(
  at: A,
  go: (change: (before: A) => A, replace: boolean) => void,
  usual: string,
  piece = 50,
) {
  const place = pieces(at.pages)
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
