/** A table of one page of a list; on a phone, each row is a card. The API sorts, filters and pages. */
import { type ColumnDef, tableFeatures, useTable } from "@tanstack/react-table"
import { ArrowDown, ArrowUp, ChevronLeft, ChevronRight } from "lucide-react"
import { type ReactNode, useId, useMemo } from "react"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { Button } from "./button"
import { Select } from "./form"

export interface Column<T> {
  id: string
  header: string
  cell: (row: T) => ReactNode
  /** Its name in the API's `sort`. */
  sort?: string
  className?: string
  hideHeader?: boolean
}

interface NameProps {
  /** The link to the object's page. */
  children: ReactNode
  namespace: string
}

/** The name of an object, above its namespace if that is not the usual one. */
export function NameCell({ children, namespace }: NameProps) {
  return (
    <div className="min-w-32 [&>a]:font-medium [&>a]:wrap-anywhere [&>a]:text-primary [&>a]:hover:underline">
      {children}
      {namespace !== "default" && <p className="text-[13px] text-muted-foreground">{namespace}</p>}
    </div>
  )
}

/** The last column, with the buttons or the menu of a row. Screen readers read its header. */
export function actionsColumn<T>(header: string, cell: (row: T) => ReactNode): Column<T> {
  return { id: "actions", header, hideHeader: true, className: "w-px text-right whitespace-nowrap", cell }
}

interface Props<T> {
  label: string
  columns: Column<T>[]
  rows: T[]
  rowId: (row: T) => string
  /** `name`, or `-name` for descending. */
  sort?: string
  onSort?: (sort: string) => void
  /** While the next page is loaded. */
  busy?: boolean
}

const features = tableFeatures({})

export function DataTable<T extends object>({ label, columns, rows, rowId, sort, onSort, busy }: Props<T>) {
  const w = useTexts(commonTexts)
  const defined = useMemo(
    () =>
      columns.map(
        (column): ColumnDef<typeof features, T> => ({
          id: column.id,
          header: column.header,
          cell: ({ row }) => column.cell(row.original),
        }),
      ),
    [columns],
  )
  const table = useTable({ features, columns: defined, data: rows, getRowId: rowId })
  const byId = useMemo(() => new Map(columns.map((column) => [column.id, column])), [columns])
  // Before it, there may be a box to tick. It is the heading of the card.
  const name = columns.find((column) => !column.hideHeader)
  return (
    <div
      className={classes("relative overflow-x-auto rounded-lg border bg-card", busy && "opacity-70")}
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      {onSort && <SortChoice columns={columns} sort={sort} onSort={onSort} />}
      <table className="table-or-cards w-full border-collapse text-left" aria-busy={busy}>
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id} className="border-b">
              {group.headers.map((header) => {
                const column = byId.get(header.id)
                const order = column?.sort && sortedBy(sort, column.sort)
                return (
                  <th
                    key={header.id}
                    scope="col"
                    aria-sort={order || undefined}
                    className={classes(
                      "px-3 py-2 text-[13px] font-medium whitespace-nowrap text-muted-foreground",
                      column?.className,
                    )}
                  >
                    {column?.sort && onSort ? (
                      <button
                        type="button"
                        title={w("sortBy", { name: column.header })}
                        className="inline-flex items-center gap-1 hover:text-foreground"
                        onClick={() => onSort(order === "ascending" ? `-${column.sort}` : `${column.sort}`)}
                      >
                        {column.header}
                        {order === "ascending" && <ArrowUp aria-hidden className="size-3.5" />}
                        {order === "descending" && <ArrowDown aria-hidden className="size-3.5" />}
                      </button>
                    ) : (
                      <span className={column?.hideHeader ? "sr-only" : ""}>{column?.header}</span>
                    )}
                  </th>
                )
              })}
            </tr>
          ))}
        </thead>
        <tbody>
          {table.getRowModel().rows.map((row) => (
            <tr key={row.id} className="border-b last:border-0 hover:bg-muted/50">
              {row.getAllCells().map((cell) => {
                const column = byId.get(cell.column.id)
                return (
                  <td
                    key={cell.id}
                    className={classes("px-3 py-2.5 align-middle", column?.className)}
                    data-name={column === name || undefined}
                    data-label={column?.hideHeader || column === name ? undefined : column?.header}
                  >
                    <table.FlexRender cell={cell} />
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Cards have no header to click. */
function SortChoice<T>({
  columns,
  sort = "",
  onSort,
}: Required<Pick<Props<T>, "columns" | "onSort">> & { sort?: string }) {
  const w = useTexts(commonTexts)
  const id = useId()
  const sortable = columns.filter((column) => column.sort)
  if (!sortable.length) return null
  const orders = sortable.flatMap(({ sort, header }) => [
    { value: `${sort}`, label: `${header} ↑` },
    { value: `-${sort}`, label: `${header} ↓` },
  ])
  return (
    <div className="flex items-center gap-2 border-b px-3 py-2 text-[13px] text-muted-foreground sm:hidden">
      <label htmlFor={id}>{w("sort")}</label>
      <Select id={id} className="h-8 w-auto" value={sort} onChange={(event) => onSort(event.target.value)}>
        {!orders.some(({ value }) => value === sort) && <option value={sort}>{w("sortUsual")}</option>}
        {orders.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </Select>
    </div>
  )
}

interface PagerProps {
  /** The number of items before this page. */
  before: number
  count: number
  total: number
  onPrevious?: () => void
  onNext?: () => void
}

export function Pager({ before, count, total, onPrevious, onNext }: PagerProps) {
  const w = useTexts(commonTexts)
  if (total === 0) return null
  return (
    <div className="flex items-center justify-end gap-2 text-[13px] text-muted-foreground">
      <span>{w("range", { from: before + 1, to: before + count, total })}</span>
      <Button size="icon" aria-label={w("previous")} disabled={!onPrevious} onClick={onPrevious}>
        <ChevronLeft />
      </Button>
      <Button size="icon" aria-label={w("next")} disabled={!onNext} onClick={onNext}>
        <ChevronRight />
      </Button>
    </div>
  )
}

function sortedBy(sort: string | undefined, name: string): "ascending" | "descending" | undefined {
  if (sort === name) return "ascending"
  return sort === `-${name}` ? "descending" : undefined
}
