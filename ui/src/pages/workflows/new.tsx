/** The pages with the editor: a new workflow, a new version, and a copy of a version. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { useState } from "react"
import { moduleVersionQuery } from "@/api/options"
import { copyVersion, createVersion, createWorkflow, type VersionDetail, versionQuery } from "@/api/workflows"
import { Loading, ProblemView } from "@/components/feedback"
import { Field, Select } from "@/components/form"
import { Page } from "@/components/page"
import { EditorPage } from "@/editor/editor-page"
import { nodeOfTemplate } from "@/editor/node-templates"
import type { GraphDocument } from "@/graph/document"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"
import { WorkflowFields } from "./workflow-form"

const newRoute = getRouteApi("/shell/workflows/new")

/** Starts empty, or with a module. */
export function NewWorkflow() {
  const { module = "" } = newRoute.useSearch()
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
  const w = useTexts(workflowTexts)
  const e = useTexts(editorTexts)
  const { type } = newRoute.useSearch()
  const navigate = newRoute.useNavigate()
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

const newVersionRoute = getRouteApi("/shell/workflows/$workflow/new-version")

/** Starts as a copy of an existing version. */
export function NewVersion() {
  const w = useTexts(workflowTexts)
  const { workflow } = newVersionRoute.useParams()
  const { from = "latest" } = newVersionRoute.useSearch()
  const navigate = newVersionRoute.useNavigate()
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

const copyRoute = getRouteApi("/shell/workflows/$workflow/versions/$version/copy")

export function CopyVersion() {
  const w = useTexts(workflowTexts)
  const { workflow, version } = copyRoute.useParams()
  const found = useQuery({ ...versionQuery(workflow, version), staleTime: Infinity, refetchOnWindowFocus: false })
  if (found.error)
    return (
      <Page title={w("copyVersion")}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  return found.data ? <Copy key={found.data.id} source={found.data} /> : <Loading />
}

/** Copies to the same workflow or a new one; everything can be edited. */
function Copy({ source }: { source: VersionDetail }) {
  const w = useTexts(workflowTexts)
  const e = useTexts(editorTexts)
  const { into } = copyRoute.useSearch()
  const navigate = copyRoute.useNavigate()
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
