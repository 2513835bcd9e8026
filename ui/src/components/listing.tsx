/** A list of the API with everything around it: loading, what went wrong, nothing found, pages. */
import type { UseQueryResult } from "@tanstack/react-query"
import type { ReactNode } from "react"
import type { Pieces } from "@/lib/pieces"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { Button } from "./button"
import { type Column, DataTable, Pager } from "./data-table"
import { Empty, Loading } from "./feedback"
import { ProblemView } from "./problem-view"

interface Props<T> {
  label: string
  found: UseQueryResult<{ items: T[]; next: string | null; total: number }>
  columns: Column<T>[]
  rowId: (row: T) => string
  sort?: string
  onSort?: (sort: string) => void
  place?: Pieces
  /** How many a page has. */
  piece?: number
  onPages?: (pages: string | undefined) => void
  /** Clears the filters, if there are any. */
  clear?: () => void
  empty: ReactNode
}

export function Listing<T extends object>({ label, found, columns, rowId, sort, onSort, place, piece = 50, onPages, clear, empty }: Props<T>) {
  const c = useWords(commonWords)
  const page = found.data
  return (
    <>
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {page &&
        (page.items.length ? (
          <>
            <DataTable label={label} columns={columns} rows={page.items} rowId={rowId} sort={sort} onSort={onSort} busy={found.isPlaceholderData} />
            {place && onPages && (
              <Pager
                before={place.number * piece}
                count={page.items.length}
                total={page.total}
                onPrevious={place.previous === undefined ? undefined : () => onPages(place.previous || undefined)}
                onNext={page.next ? () => onPages(place.next(page.next as string)) : undefined}
              />
            )}
          </>
        ) : clear ? (
          <Empty title={c("nothingFound")} actions={<Button onClick={clear}>{c("clearFilters")}</Button>} />
        ) : (
          empty
        ))}
    </>
  )
}
