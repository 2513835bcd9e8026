import { Link, useNavigate } from "@tanstack/react-router"
import { Archive, EllipsisVertical, Plus, RotateCcw, Trash2, Workflow } from "lucide-react"
import { useState } from "react"
import { useMe } from "@/api/client"
import {
  buildModuleAgain,
  deleteModule,
  type Module,
  type ModuleVersion,
  modulesChanged,
  stepModule,
} from "@/api/modules"
import { canUse } from "@/components/badge"
import { Button } from "@/components/button"
import { Confirm } from "@/components/dialog"
import { Menu, type MenuItem } from "@/components/menu"
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
  const [asking, setAsking] = useState<"build" | "deprecate" | "delete">()
  const close = () => setAsking(undefined)
  const { name } = module
  const may = (action: string) => module.may.includes(action)
  const items: (MenuItem | "line")[] = []
  if (may("edit")) items.push({ label: w("buildAgain"), icon: <RotateCcw />, onSelect: () => setAsking("build") })
  if (may("deprecate") && version.steps.includes("deprecate"))
    items.push({ label: w("deprecate"), icon: <Archive />, onSelect: () => setAsking("deprecate") })
  if (may("delete")) {
    if (items.length) items.push("line")
    items.push({ label: c("delete"), icon: <Trash2 />, danger: true, onSelect: () => setAsking("delete") })
  }
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
      {items.length > 0 && (
        <Menu items={items}>
          <Button size="icon" className="size-9" aria-label={c("more")}>
            <EllipsisVertical />
          </Button>
        </Menu>
      )}
      <Confirm
        open={asking === "build"}
        onClose={close}
        title={w("buildAgainTitle", { name })}
        lead={w("buildAgainHelp", { ref: version.git_ref })}
        action={w("buildAgain")}
        onConfirm={async () => {
          const now = await buildModuleAgain(name)
          note(w("savedVersion", { n: now.versions }))
          void navigate({ to: "/modules/$module", params: { module: name }, search: { tab: "log" } })
        }}
      />
      <Confirm
        open={asking === "deprecate"}
        onClose={close}
        title={w("deprecateTitle", { name, n: version.number })}
        lead={w("deprecateHelp")}
        action={w("deprecate")}
        onConfirm={() => stepModule(name, version.number, "deprecate")}
      />
      <Confirm
        open={asking === "delete"}
        onClose={close}
        title={w("deleteTitle", { name })}
        lead={w("deleteHelp")}
        action={c("delete")}
        danger
        onConfirm={async () => {
          await deleteModule(name)
          note(w("deleted", { name }))
          await navigate({ to: "/modules" })
          modulesChanged()
        }}
      />
    </>
  )
}
