import { useQuery } from "@tanstack/react-query"
import { Tags } from "lucide-react"
import { useMemo, useState } from "react"
import { type Category, categoryListQuery, categoryQuery, deleteCategory, saveCategory } from "@/api/admin"
import { Button } from "@/components/button"
import type { Column } from "@/components/data-table"
import { Dialog, FormDialog, text } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Time } from "@/components/time"
import { note, noteError } from "@/components/toasts"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { NameFields } from "./fields"
import { ManagedList, useAdminList } from "./managed-list"

export function Categories() {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const { open } = useAdminList()
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
      empty={{ title: w("noCategories"), help: w("noCategoriesHelp"), actions: <SuggestedCategories /> }}
      query={categoryListQuery}
      columns={columns}
      form={(id, close) => <CategoryForm id={id} close={close} />}
      deleteHelp={w("deleteCategoryHelp")}
      onDelete={deleteCategory}
    />
  )
}

const SUGGESTED = ["suggestedData", "suggestedTraining", "suggestedEvaluation", "suggestedDeployment"] as const

/** Creates the usual categories of a machine-learning team. */
function SuggestedCategories() {
  const w = useTexts(adminTexts)
  const [busy, setBusy] = useState(false)
  const names = SUGGESTED.map((key) => w(key))
  const add = async () => {
    setBusy(true)
    try {
      for (const name of names) await saveCategory(undefined, { name, description: "" })
    } catch (error) {
      noteError(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Button disabled={busy} onClick={() => void add()}>
      {w("addSuggested", { names: names.join(w("listSeparator")) })}
    </Button>
  )
}

function CategoryForm({ id, close }: { id: string; close: () => void }) {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
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
