import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { useState } from "react"
import { copyVersion, versionQuery, type WholeVersion } from "@/api/workflows"
import { Loading } from "@/components/feedback"
import { Field, Select } from "@/components/form"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { EditorPage } from "@/editor/editor-page"
import type { GraphDocument } from "@/graph/document"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import { workflowWords } from "@/words/workflows"
import { WorkflowFields } from "./workflow-fields"

const route = getRouteApi("/shell/workflows/$workflow/versions/$version/copy")

export function CopyVersion() {
  const w = useWords(workflowWords)
  const { workflow, version } = route.useParams()
  const found = useQuery({ ...versionQuery(workflow, version), staleTime: Infinity, refetchOnWindowFocus: false })
  if (found.error)
    return (
      <Page title={w("copyVersion")}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  return found.data ? <Copy key={found.data.id} source={found.data} /> : <Loading />
}

/** Into the same workflow or a new one, with everything editable. */
function Copy({ source }: { source: WholeVersion }) {
  const w = useWords(workflowWords)
  const e = useWords(editorWords)
  const { into } = route.useSearch()
  const navigate = route.useNavigate()
  const fresh = into === "new"
  const [workflow, setWorkflow] = useState({
    name: w("copyOf", { name: source.workflow_name }),
    description: "",
    team: "",
  })
  return (
    <EditorPage
      title={w("copyTitle", { workflow: source.workflow_name, version: source.name })}
      above={
        <Link to="/workflows/$workflow" params={{ workflow: source.workflow_id }} className="hover:underline">
          {source.workflow_name}
        </Link>
      }
      document={source.document as unknown as GraphDocument}
      workflowFields={(fault) => (
        <>
          <Field label={w("copyInto")}>
            {(field) => (
              <Select
                {...field}
                value={fresh ? "new" : "same"}
                onChange={(event) =>
                  void navigate({ search: { into: event.target.value === "new" ? "new" : undefined }, replace: true })
                }
              >
                <option value="same">{w("copySame")}</option>
                <option value="new">{w("copyNew")}</option>
              </Select>
            )}
          </Field>
          {fresh && <WorkflowFields value={workflow} change={setWorkflow} fault={fault} />}
        </>
      )}
      missing={fresh && !workflow.name.trim() ? e("needsName") : undefined}
      save={(version) =>
        copyVersion(
          { workflow: source.workflow_id, version: source.id },
          fresh ? workflow : source.workflow_id,
          version,
        )
      }
      saved={({ workflow_id, version }) =>
        void navigate({
          to: "/workflows/$workflow/versions/$version",
          params: { workflow: workflow_id, version: String(version.number) },
          search: {},
        })
      }
    />
  )
}
