/** A list in the administration: search, create, edit and delete. */

import type { QueryKey, UseQueryOptions } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { type LucideIcon, Pencil, Plus, Trash2 } from "lucide-react"
import { type ReactNode, useMemo, useState } from "react"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Confirm } from "@/components/dialog"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { Listing, usePage } from "@/components/listing"
import { note } from "@/components/toasts"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"

const route = getRouteApi("/shell/admin")

/** The state of a list of the administration, from the address; in the `usual` order by default. */
export function useAdminList(usual = "name") {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { tab } = search
  return {
    search,
    ...listState(search, navigate, usual),
    open: (id: string | undefined) => void navigate({ search: (before) => ({ ...before, open: id }) }),
    close: () => void navigate({ search: (before) => ({ ...before, open: undefined }), replace: true }),
    clear: () => void navigate({ search: { tab } }),
  }
}

interface Found<T> {
  items: T[]
  next: string | null
  total: number
}

interface Asked {
  q?: string
  sort: string
  cursor?: string
  limit: number
}

interface Props<T, K extends QueryKey> {
  icon: LucideIcon
  label: string
  searchLabel: string
  createLabel: string
  empty: { title: string; help: string; actions?: ReactNode }
  query: (asked: Asked) => UseQueryOptions<Found<T>, Error, Found<T>, K>
  /** All columns apart from the actions. */
  columns: Column<T>[]
  /** Whether there is an edit button, because the name links to another page. */
  hasEdit?: boolean
  form: (id: string, close: () => void) => ReactNode
  deleteHelp: string
  onDelete: (thing: T) => Promise<unknown>
}

export function ManagedList<T extends { id: string; name: string }, K extends QueryKey>({
  icon,
  label,
  searchLabel,
  createLabel,
  empty,
  query,
  columns,
  hasEdit,
  form,
  deleteHelp,
  onDelete,
}: Props<T, K>) {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const { search, asked, shown, filter, open, close, clear } = useAdminList()
  const found = usePage(query({ q: search.q, ...asked }))
  const [dropping, setDropping] = useState<T>()
  const all = useMemo(
    (): Column<T>[] => [
      ...columns,
      actionsColumn(c("actions"), (thing) => (
        <>
          {hasEdit && (
            <Button
              look="ghost"
              size="icon"
              aria-label={`${c("edit")}: ${thing.name}`}
              title={c("edit")}
              onClick={() => open(thing.id)}
            >
              <Pencil />
            </Button>
          )}
          <Button
            look="ghost"
            size="icon"
            aria-label={w("deleteTitle", { name: thing.name })}
            title={c("delete")}
            onClick={() => setDropping(thing)}
          >
            <Trash2 />
          </Button>
        </>
      )),
    ],
    [columns, hasEdit, w, c, open],
  )
  const create = (
    <Button look="primary" onClick={() => open("new")}>
      <Plus />
      {createLabel}
    </Button>
  )
  return (
    <>
      <Filters>
        <SearchBox label={searchLabel} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <div className="ml-auto">{create}</div>
      </Filters>
      <Listing
        label={label}
        found={found}
        columns={all}
        rowId={(thing) => thing.id}
        {...shown}
        clear={search.q ? clear : undefined}
        empty={
          <Empty
            icon={icon}
            title={empty.title}
            actions={
              <>
                {create}
                {empty.actions}
              </>
            }
          >
            {empty.help}
          </Empty>
        }
      />
      {search.open && form(search.open, close)}
      {dropping && (
        <Confirm
          open
          danger
          onClose={() => setDropping(undefined)}
          title={w("deleteTitle", { name: dropping.name })}
          lead={deleteHelp}
          action={c("delete")}
          onConfirm={async () => {
            await onDelete(dropping)
            note(w("deleted", { name: dropping.name }))
          }}
        />
      )}
    </>
  )
}
