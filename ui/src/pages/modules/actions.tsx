import { Link, useNavigate } from "@tanstack/react-router"
import { Archive, Plus, RotateCcw, Trash2, Workflow } from "lucide-react"
import { useMe } from "@/api/client"
import {
  buildModuleAgain,
  deleteModule,
  type Module,
  type ModuleVersion,
  modulesChanged,
  stepModule,
} from "@/api/modules"
import { type Action, Actions } from "@/components/actions"
import { canUse } from "@/components/badge"
import { Button } from "@/components/button"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { moduleTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"

/** The actions on a module and on the version that is shown. */
export function ModuleActions({ module, version }: { module: Module; version: ModuleVersion }) {
  const w = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const me = useMe()
  const navigate = useNavigate()
  const { name } = module
  const may = (action: string) => module.may.includes(action)
  const rebuild: Action = {
    label: w("buildAgain"),
    icon: <RotateCcw />,
    confirm: { title: w("buildAgainTitle", { name }), lead: w("buildAgainHelp", { ref: version.git_ref }) },
    run: async () => {
      const now = await buildModuleAgain(name)
      note(w("savedVersion", { n: now.versions }))
      void navigate({ to: "/modules/$module", params: { module: name }, search: { tab: "log" } })
    },
  }
  const deprecate: Action = {
    label: w("deprecate"),
    icon: <Archive />,
    confirm: { title: w("deprecateTitle", { name, n: version.number }), lead: w("deprecateHelp") },
    run: () => stepModule(name, version.number, "deprecate"),
  }
  const remove: Action = {
    label: c("delete"),
    icon: <Trash2 />,
    danger: true,
    confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
    run: async () => {
      await deleteModule(name)
      note(w("deleted", { name }))
      await navigate({ to: "/modules" })
      modulesChanged()
    },
  }
  const actions = [
    may("edit") ? rebuild : undefined,
    may("deprecate") && version.steps.includes("deprecate") ? deprecate : undefined,
    may("delete") ? remove : undefined,
  ]
  return (
    <>
      {may("edit") && (
        <Button asChild>
          <Link to="/modules/$module/edit" params={{ module: name }}>
            <Plus />
            {w("newVersion")}
          </Link>
        </Button>
      )}
      {may("use") && canUse(version.state, module.owner_id === me.user.id) && (
        <Button asChild look="primary">
          <Link to="/workflows/new" search={{ module: `${name}@${version.number}` }}>
            <Workflow />
            {w("use")}
          </Link>
        </Button>
      )}
      <Actions actions={actions} large />
    </>
  )
}
