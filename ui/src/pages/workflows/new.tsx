import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { useState } from "react"
import { moduleVersionQuery } from "@/api/offers"
import { createWorkflow } from "@/api/workflows"
import { Loading } from "@/components/feedback"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { EditorPage } from "@/editor/editor-page"
import { nodeOfTemplate } from "@/editor/templates"
import type { GraphDocument } from "@/graph/document"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import { workflowWords } from "@/words/workflows"
import { WorkflowFields } from "./workflow-fields"

const route = getRouteApi("/shell/workflows/new")

/** Empty, or with the module in it that one wants to use. */
export function NewWorkflow() {
  const { module = "" } = route.useSearch()
  const [name = "", version = ""] = module.split("@")
  const found = useQuery({ ...moduleVersionQuery(name, version), enabled: name !== "" && version !== "", retry: false })
  if (found.isLoading) return <Loading />
  if (found.error)
    return (
      <Page title={name}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  const document: GraphDocument = {
    format: 1,
    nodes: found.data
      ? [nodeOfTemplate({ kind: "module", module: name, version, inputs: found.data.inputs }, { x: 0, y: 0 })]
      : [],
  }
  return <Writing document={document} />
}

function Writing({ document }: { document: GraphDocument }) {
  const w = useWords(workflowWords)
  const e = useWords(editorWords)
  const { type } = route.useSearch()
  const navigate = route.useNavigate()
  const [workflow, setWorkflow] = useState({ name: "", description: "", team: "" })
  return (
    <EditorPage
      title={w("createTitle")}
      above={
        <Link to="/workflows" className="hover:underline">
          {w("title")}
        </Link>
      }
      document={document}
      type={type === "yaml" ? "yaml" : "graph"}
      workflowFields={(fault) => <WorkflowFields value={workflow} change={setWorkflow} fault={fault} />}
      touched={Object.values(workflow).some(Boolean)}
      missing={workflow.name.trim() ? undefined : e("needsName")}
      save={(version) => createWorkflow(workflow, version)}
      saved={({ workflow_id, version }) =>
        void navigate({
          to: "/workflows/$workflow/versions/$version",
          params: { workflow: workflow_id, version: String(version.number) },
        })
      }
    />
  )
}
