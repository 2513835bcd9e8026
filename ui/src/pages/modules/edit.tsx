/** The pages to create a module and to build a new version of one. */

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { useState } from "react"
import { queryClient, useMe } from "@/api/client"
import { createModule, editModule, type Module, type ModuleVersionDetail, moduleQuery } from "@/api/modules"
import { moduleVersionQuery } from "@/api/options"
import { Loading, ProblemView } from "@/components/feedback"
import { Page } from "@/components/page"
import { note } from "@/components/toasts"
import { moduleTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { EMPTY_MODULE, moduleText } from "./form-state"
import { ModuleForm } from "./module-form"

const newRoute = getRouteApi("/shell/modules/new")

export function NewModule() {
  const w = useTexts(moduleTexts)
  const navigate = newRoute.useNavigate()
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

const editRoute = getRouteApi("/shell/modules/$module/edit")

export function EditModule() {
  const w = useTexts(moduleTexts)
  const { module: name } = editRoute.useParams()
  // Loaded once when the page opens, so that nothing typed is lost when others change it.
  const found = useQuery({
    queryKey: ["editing", name],
    queryFn: async () => {
      const options = { staleTime: 0 }
      const [module, version] = await Promise.all([
        queryClient.fetchQuery({ ...moduleQuery(name), ...options }),
        queryClient.fetchQuery({ ...moduleVersionQuery(name, "latest"), ...options }),
      ])
      return { module, version }
    },
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  })
  return (
    <Page
      title={w("editTitle", { name })}
      lead={w("editLead")}
      above={
        <Link to="/modules/$module" params={{ module: name }} className="hover:underline">
          {name}
        </Link>
      }
    >
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {found.data && <Editing key={name} {...found.data} />}
    </Page>
  )
}

function Editing({ module, version }: { module: Module; version: ModuleVersionDetail }) {
  const w = useTexts(moduleTexts)
  const navigate = editRoute.useNavigate()
  const [start] = useState(() => moduleText(module, version))
  return (
    <ModuleForm
      start={start}
      module={module.name}
      submit={w("submitEdit")}
      save={async (form) => {
        const now = await editModule(module.name, module.revision, form)
        const isNew = now.versions > module.versions
        note(isNew ? w("savedVersion", { n: now.versions }) : w("savedNothing"))
        void navigate({ to: "/modules/$module", params: { module: module.name }, search: isNew ? { tab: "log" } : {} })
      }}
    />
  )
}
