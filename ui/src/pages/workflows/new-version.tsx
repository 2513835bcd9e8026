import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { createVersion, versionQuery } from "@/api/workflows"
import { Loading } from "@/components/feedback"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { EditorPage } from "@/editor/editor-page"
import type { GraphDocument } from "@/graph/document"
import { useWords } from "@/words/words"
import { workflowWords } from "@/words/workflows"

const route = getRouteApi("/shell/workflows/$workflow/new-version")

/** Begins as the version it is made from. */
export function NewVersion() {
  const w = useWords(workflowWords)
  const { workflow } = route.useParams()
  const { from = "latest" } = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery({ ...versionQuery(workflow, from), staleTime: Infinity, refetchOnWindowFocus: false })
  if (found.error)
    return (
      <Page title={w("newVersion")}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const { workflow_name, document } = found.data
  return (
    <EditorPage
      key={found.data.id}
      title={w("newVersionTitle", { name: workflow_name })}
      above={
        <Link to="/workflows/$workflow" params={{ workflow }} className="hover:underline">
          {workflow_name}
        </Link>
      }
      document={document as unknown as GraphDocument}
      save={(version) => createVersion(workflow, version)}
      saved={({ version }) =>
        void navigate({
          to: "/workflows/$workflow/versions/$version",
          params: { workflow, version: String(version.number) },
        })
      }
    />
  )
}
