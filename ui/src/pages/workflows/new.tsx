/** The pages with the editor: a new workflow, a new version, and a copy of a version. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, Navigate } from "@tanstack/react-router"
import { useRef, useState } from "react"
import { queryClient } from "@/api/client"
import { moduleVersionQuery } from "@/api/options"
import { failure } from "@/api/problem"
import {
  copyVersion,
  createVersion,
  createWorkflow,
  type VersionDetail,
  versionQuery,
  type WorkflowDetail,
  workflowQuery,
} from "@/api/workflows"
import { Button } from "@/components/button"
import { Loading, ProblemView } from "@/components/feedback"
import { Field, Select } from "@/components/form"
import { Page } from "@/components/page"
import { EditorPage, type NewerVersion } from "@/editor/editor-page"
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
  if (failure(found))
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
      draft={{ workflow, restore: (kept) => setWorkflow({ ...workflow, ...kept }) }}
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
  // As it was when the page was opened: a version that someone else saves meanwhile must not go unnoticed.
  const opened = useRef<WorkflowDetail>(undefined)
  const around = useQuery(workflowQuery(workflow))
  opened.current ??= around.data
  const error = found.error ?? around.error
  if (error)
    return (
      <Page title={w("newVersion")}>
        <ProblemView error={error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data || !opened.current) return <Loading />
  const { workflow_name, document, number } = found.data
  if (!opened.current.may.includes("create version"))
    return <Navigate to="/workflows/$workflow/versions/$version/copy" params={{ workflow, version: String(number) }} />
  const { revision } = opened.current
  const findNewer = async (): Promise<NewerVersion> => {
    const latest = await queryClient.fetchQuery({ ...versionQuery(workflow, "latest"), staleTime: 0 })
    return {
      name: latest.name,
      author: latest.author_name,
      compare: (
        <Button asChild>
          <Link
            to="/workflows/$workflow/diff"
            params={{ workflow }}
            search={{ before: String(number), after: String(latest.number) }}
            target="_blank"
          >
            {w("compare")}
          </Link>
        </Button>
      ),
    }
  }
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
      save={(version, anyway) => createVersion(workflow, version, anyway ? undefined : revision)}
      findNewer={findNewer}
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
  if (failure(found))
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
  const mayAdd = useQuery(workflowQuery(source.workflow_id)).data?.may.includes("create version") ?? true
  const fresh = into === "new" || !mayAdd
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
                {mayAdd && <option value="same">{w("copySame")}</option>}
                <option value="new">{w("copyNew")}</option>
              </Select>
            )}
          </Field>
          {fresh && <WorkflowFields value={workflow} change={setWorkflow} fault={fault} />}
        </>
      )}
      missing={fresh && !workflow.name.trim() ? e("needsName") : undefined}
      draft={{ workflow, restore: (kept) => setWorkflow({ ...workflow, ...kept }) }}
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
