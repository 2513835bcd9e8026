/** A list of the API with everything around it: loading, errors, no results, pages. */
import {
  keepPreviousData,
  type QueryKey,
  type UseQueryOptions,
  type UseQueryResult,
  useQuery,
} from "@tanstack/react-query"
import type { ReactNode } from "react"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import type { PageTrail } from "@/lib/pagination"
import { Button } from "./button"
import { type Column, DataTable, Pager } from "./data-table"
import { Empty, Loading, ProblemView } from "./feedback"

interface Around<T> {
  found: UseQueryResult<{ items: T[]; next: string | null; total: number }>
  place?: PageTrail
  /** The number of items on a page. */
  piece?: number
  onPages?: (pages: string | undefined) => void
  /** Clears the filters; undefined without filters. */
  clear?: () => void
  /** Shown when the list is empty; without it, an empty table. */
  empty?: ReactNode
}

export interface Table<T> extends Around<T> {
  label: string
  columns: Column<T>[]
  rowId: (row: T) => string
  sort?: string
  onSort?: (sort: string) => void
}

/** A page of a list. It stays until the next one is there. */
export function usePage<T, K extends QueryKey>(query: UseQueryOptions<T, Error, T, K>): UseQueryResult<T> {
  return useQuery({ ...query, placeholderData: keepPreviousData as UseQueryOptions<T, Error, T, K>["placeholderData"] })
}

/** A list as a table. */
export function Listing<T extends object>({ label, columns, rowId, sort, onSort, ...around }: Table<T>) {
  return (
    <Paged {...around}>
      {(rows, busy) => (
        <DataTable label={label} columns={columns} rows={rows} rowId={rowId} sort={sort} onSort={onSort} busy={busy} />
      )}
    </Paged>
  )
}

interface Shown<T> extends Around<T> {
  /** Renders one page; `busy` while the next one is loaded. */
  children: (items: T[], busy: boolean) => ReactNode
}

/** A list in any other form. */
export function Paged<T extends object>({ found, place, piece = 50, onPages, clear, empty, children }: Shown<T>) {
  const c = useTexts(commonTexts)
  const page = found.data
  return (
    <>
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {page &&
        (page.items.length || (!clear && !empty) ? (
          <>
            {children(page.items, found.isPlaceholderData)}
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
