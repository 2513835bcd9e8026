import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { useState } from "react"
import { editModule, type Module, moduleQuery, type WholeModuleVersion } from "@/api/modules"
import { moduleVersionQuery } from "@/api/offers"
import { queries } from "@/api/query-client"
import { Loading } from "@/components/feedback"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { note } from "@/components/toasts"
import { moduleText } from "@/lib/module-form"
import { moduleWords } from "@/words/modules"
import { useWords } from "@/words/words"
import { ModuleForm } from "./module-form"

const route = getRouteApi("/shell/modules/$module/edit")

export function EditModule() {
  const w = useWords(moduleWords)
  const { module: name } = route.useParams()
  // As it is when the page is opened: nothing that is typed is lost by what others do.
  const found = useQuery({
    queryKey: ["editing", name],
    queryFn: async () => {
      const options = { staleTime: 0 }
      const [module, version] = await Promise.all([
        queries.fetchQuery({ ...moduleQuery(name), ...options }),
        queries.fetchQuery({ ...moduleVersionQuery(name, "latest"), ...options }),
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

function Editing({ module, version }: { module: Module; version: WholeModuleVersion }) {
  const w = useWords(moduleWords)
  const navigate = route.useNavigate()
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
