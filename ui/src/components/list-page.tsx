/** The page of a list: a search box and filters above a table, and a hint while there is nothing in it. */
import type { ComponentType, ReactNode } from "react"
import { Empty } from "./feedback"
import { Filters, SearchBox } from "./filters"
import { Listing, type Table } from "./listing"
import { Page } from "./page"

interface Found<T> extends Omit<Table<T>, "place" | "piece" | "onPages" | "sort" | "onSort" | "clear"> {
  /** What `listState` returns. */
  list: Pick<Table<T>, "clear"> & {
    q: string
    find: (q: string) => void
    shown: Pick<Table<T>, "place" | "piece" | "onPages" | "sort" | "onSort">
  }
  /** The label of the search box. */
  search: string
  filters?: ReactNode
}

/** A list with its search box and filters. */
export function FilteredList<T extends object>({ list, search, filters, ...table }: Found<T>) {
  return (
    <>
      <Filters>
        <SearchBox label={search} value={list.q} onChange={list.find} />
        {filters}
      </Filters>
      <Listing {...table} {...list.shown} clear={list.clear} />
    </>
  )
}

interface Props<T> extends Omit<Found<T>, "label" | "empty" | "search"> {
  /** The texts of the page. */
  w: (word: "title" | "lead" | "search" | "empty" | "emptyHelp") => string
  icon: ComponentType<{ className?: string }>
  /** The buttons for a new one. */
  create: ReactNode
  /** The buttons while the list is empty, if they are others. */
  start?: ReactNode
  /** Below the list: a dialog, a bar. */
  children?: ReactNode
}

export function ListPage<T extends object>({ w, icon, create, start = create, children, ...list }: Props<T>) {
  const empty = (
    <Empty icon={icon} title={w("empty")} actions={start}>
      {w("emptyHelp")}
    </Empty>
  )
  return (
    <Page title={w("title")} lead={w("lead")} actions={create} wide>
      <FilteredList label={w("title")} search={w("search")} empty={empty} {...list} />
      {children}
    </Page>
  )
}
