import { Link, getRouteApi } from "@tanstack/react-router"
import { useState } from "react"
import { createWorkflow } from "@/api/workflows"
import { EditorPage } from "@/editor/editor-page"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import { workflowWords } from "@/words/workflows"
import { WorkflowFields } from "./workflow-fields"

const route = getRouteApi("/shell/workflows/new")

export function NewWorkflow() {
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
