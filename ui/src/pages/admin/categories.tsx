import { useQuery } from "@tanstack/react-query"
import { Tags } from "lucide-react"
import { useMemo } from "react"
import { type Category, categoryListQuery, categoryQuery, deleteCategory, saveCategory } from "@/api/admin"
import type { Column } from "@/components/data-table"
import { Dialog } from "@/components/dialog"
import { FormDialog, text } from "@/components/form-dialog"
import { ProblemView } from "@/components/problem-view"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { adminWords } from "@/words/admin"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { ManagedList } from "./managed-list"
import { NameFields } from "./name-fields"
import { useAdminPlace } from "./place"

export function Categories() {
  const w = useWords(adminWords)
  const c = useWords(commonWords)
  const { open } = useAdminPlace()
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
      {
        id: "description",
        header: c("description"),
        cell: (category) => <span className="line-clamp-2 max-w-md">{category.description || "–"}</span>,
      },
      { id: "modules", header: w("modules"), sort: "modules", cell: (category) => category.modules },
      { id: "created", header: c("created"), sort: "created", cell: (category) => <Time at={category.created} /> },
    ],
    [w, c, open],
  )
  return (
    <ManagedList
      icon={Tags}
      label={w("categories")}
      searchLabel={w("searchCategories")}
      createLabel={w("newCategory")}
      empty={{ title: w("noCategories"), help: w("noCategoriesHelp") }}
      query={categoryListQuery}
      columns={columns}
      form={(id, close) => <CategoryForm id={id} close={close} />}
      deleteHelp={w("deleteCategoryHelp")}
      onDelete={deleteCategory}
    />
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
