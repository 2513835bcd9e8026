import { getRouteApi, Link } from "@tanstack/react-router"
import { useState } from "react"
import { createModule } from "@/api/modules"
import { useMe } from "@/api/session"
import { Page } from "@/components/page"
import { note } from "@/components/toasts"
import { EMPTY_MODULE } from "@/lib/module-form"
import { moduleWords } from "@/words/modules"
import { useWords } from "@/words/words"
import { ModuleForm } from "./module-form"

const route = getRouteApi("/shell/modules/new")

export function NewModule() {
  const w = useWords(moduleWords)
  const navigate = route.useNavigate()
  const teams = Object.keys(useMe().teams)
  const [start] = useState({ ...EMPTY_MODULE, team: teams.length === 1 ? (teams[0] as string) : "" })
  return (
    <Page
      title={w("createTitle")}
      above={
        <Link to="/modules" className="hover:underline">
          {w("title")}
        </Link>
      }
    >
      <ModuleForm
        start={start}
        submit={w("submit")}
        save={async (form) => {
          const { name } = await createModule(form)
          note(w("created", { name }))
          void navigate({ to: "/modules/$module", params: { module: name }, search: { tab: "log" } })
        }}
      />
    </Page>
  )
}
