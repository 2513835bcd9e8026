import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { Plus, Tags, Trash2 } from "lucide-react"
import { useMemo, useState } from "react"
import { type Category, categoryListQuery, categoryQuery, deleteCategory, saveCategory } from "@/api/admin"
import { Button } from "@/components/button"
import type { Column } from "@/components/data-table"
import { Confirm, Dialog } from "@/components/dialog"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { FormDialog, text } from "@/components/form-dialog"
import { Listing } from "@/components/listing"
import { ProblemView } from "@/components/problem-view"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { adminWords } from "@/words/admin"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { NameFields } from "./name-fields"
import { useAdminPlace } from "./place"

const PIECE = 50

export function Categories() {
  const w = useWords(adminWords)
  const c = useWords(commonWords)
  const { search, place, filter, onSort, onPages, open, close, clear } = useAdminPlace()
  const sort = search.sort ?? "name"
  const found = useQuery({ ...categoryListQuery({ q: search.q, sort, cursor: place.cursor, limit: PIECE }), placeholderData: keepPreviousData })
  const [dropping, setDropping] = useState<Category>()
  const columns = useMemo(
    (): Column<Category>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (category) => (
          <button type="button" className="font-medium text-primary hover:underline" onClick={() => open(category.id)}>
            {category.name}
          </button>
        ),
      },
      { id: "description", header: c("description"), cell: (category) => <span className="line-clamp-2 max-w-md">{category.description || "–"}</span> },
      { id: "modules", header: w("modules"), sort: "modules", cell: (category) => category.modules },
      { id: "created", header: c("created"), sort: "created", cell: (category) => <Time at={category.created} /> },
      {
        id: "actions",
        header: c("actions"),
        hideHeader: true,
        className: "w-10 text-right",
        cell: (category) => (
          <Button look="ghost" size="icon" aria-label={w("deleteTitle", { name: category.name })} title={c("delete")} onClick={() => setDropping(category)}>
            <Trash2 />
          </Button>
        ),
      },
    ],
    [w, c, open],
  )
  const create = (
    <Button look="primary" onClick={() => open("new")}>
      <Plus />
      {w("newCategory")}
    </Button>
  )
  return (
    <>
      <Filters>
        <SearchBox label={w("searchCategories")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <div className="ml-auto">{create}</div>
      </Filters>
      <Listing
        label={w("categories")}
        found={found}
        columns={columns}
        rowId={(category) => category.id}
        sort={sort}
        onSort={onSort}
        place={place}
        piece={PIECE}
        onPages={onPages}
        clear={search.q ? clear : undefined}
        empty={
          <Empty icon={Tags} title={w("noCategories")} actions={create}>
            {w("noCategoriesHelp")}
          </Empty>
        }
      />
      {search.open && <CategoryForm id={search.open} close={close} />}
      {dropping && (
        <Confirm
          open
          danger
          onClose={() => setDropping(undefined)}
          title={w("deleteTitle", { name: dropping.name })}
          lead={w("deleteCategoryHelp")}
          action={c("delete")}
          onConfirm={async () => {
            await deleteCategory(dropping)
            note(w("deleted", { name: dropping.name }))
          }}
        />
      )}
    </>
  )
}

function CategoryForm({ id, close }: { id: string; close: () => void }) {
  const w = useWords(adminWords)
  const c = useWords(commonWords)
  const isNew = id === "new"
  const { data: category, error } = useQuery({ ...categoryQuery(id), enabled: !isNew })
  if (!isNew && !category)
    return (
      <Dialog open onClose={close} title={w("editCategory")}>
        <ProblemView error={error} />
      </Dialog>
    )
  return (
    <FormDialog
      title={w(isNew ? "newCategory" : "editCategory")}
      action={isNew ? c("create") : c("save")}
      fields={["name", "description"]}
      onClose={close}
      onSubmit={async (form) => {
        const body = { name: text(form, "name"), description: text(form, "description") }
        await saveCategory(category, body)
        note(w(isNew ? "created" : "saved", { name: body.name }))
        close()
      }}
    >
      {(fault) => <NameFields fault={fault} name={category?.name} description={category?.description} />}
    </FormDialog>
  )
}
