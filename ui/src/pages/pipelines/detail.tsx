/** A pipeline: the graph of its newest or a chosen version, its versions, parameters and spec. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { Trash2, Upload } from "lucide-react"
import { useMemo, useState } from "react"
import {
  deleteVersion,
  type Pipeline,
  type PipelineVersion,
  pipelineQuery,
  uploadVersion,
  versionQuery,
  versionsQuery,
} from "@/api/pipelines"
import { failure } from "@/api/problem"
import { Actions } from "@/components/actions"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { CodeView } from "@/components/code"
import { actionsColumn, type Column, DataTable } from "@/components/data-table"
import { Loading, ProblemView } from "@/components/feedback"
import { Select } from "@/components/form"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { type ParameterField, type PipelineSpec, parameterFields, pipelineOf, toYaml } from "@/lib/pipeline-spec"
import { PipelineActions } from "./list"
import { Above, PipelineGraph, UploadDialog } from "./parts"

const newestRoute = getRouteApi("/shell/pipelines/$pipeline")
const versionRoute = getRouteApi("/shell/pipelines/$pipeline/versions/$version")

export function PipelinePage() {
  const { pipeline } = newestRoute.useParams()
  const { tab } = newestRoute.useSearch()
  const navigate = newestRoute.useNavigate()
  return <Shown id={pipeline} tab={tab} setTab={(tab) => void navigate({ search: { tab }, replace: true })} />
}

export function PipelineVersionPage() {
  const { pipeline, version } = versionRoute.useParams()
  const { tab } = versionRoute.useSearch()
  const navigate = versionRoute.useNavigate()
  return (
    <Shown
      id={pipeline}
      chosen={version}
      tab={tab}
      setTab={(tab) => void navigate({ search: { tab }, replace: true })}
    />
  )
}

interface ShownProps {
  id: string
  chosen?: string
  tab?: string
  setTab: (tab: string) => void
}

function Shown({ id, chosen, tab, setTab }: ShownProps) {
  const w = useTexts(pipelineTexts)
  const [uploading, setUploading] = useState(false)
  const navigate = useNavigate()
  const found = useQuery(pipelineQuery(id))
  const versions = useQuery(versionsQuery(id))
  const error = found.error ?? versions.error
  if (error)
    return (
      <Page title={w("pipeline")} above={<Above to="/pipelines" word="title" />}>
        <ProblemView error={error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data || !versions.data) return <Loading />
  const pipeline = found.data
  const all = versions.data.items
  const version = chosen ?? all[0]?.pipeline_version_id
  return (
    <Page
      wide
      title={pipeline.display_name}
      above={<Above to="/pipelines" word="title" />}
      lead={pipeline.description}
      actions={
        <>
          {all.length > 0 && (
            <Select
              aria-label={w("version")}
              className="w-auto max-w-64"
              value={version}
              onChange={(event) =>
                void navigate({
                  to: "/pipelines/$pipeline/versions/$version",
                  params: { pipeline: id, version: event.target.value },
                  search: { tab },
                })
              }
            >
              {all.map((each, index) => (
                <option key={each.pipeline_version_id} value={each.pipeline_version_id}>
                  {each.display_name}
                  {index === 0 ? ` (${w("newest")})` : ""}
                </option>
              ))}
            </Select>
          )}
          {pipeline.may?.includes("edit") && (
            <Button onClick={() => setUploading(true)}>
              <Upload />
              {w("uploadVersion")}
            </Button>
          )}
          <PipelineActions pipeline={pipeline} open />
        </>
      }
    >
      {version ? (
        <Version
          key={version}
          pipeline={pipeline}
          version={version}
          versions={all}
          tab={tab ?? "graph"}
          setTab={setTab}
        />
      ) : (
        <p className="text-muted-foreground">{w("noVersion")}</p>
      )}
      {uploading && (
        <UploadDialog
          title={w("uploadVersion")}
          isVersion
          close={() => setUploading(false)}
          send={async (sent) => {
            const made = await uploadVersion(sent, id)
            note(w("uploaded", { name: made.display_name }))
            setUploading(false)
            void navigate({ to: "/pipelines/$pipeline", params: { pipeline: id } })
          }}
        />
      )}
    </Page>
  )
}

interface VersionProps {
  pipeline: Pipeline
  version: string
  versions: PipelineVersion[]
  tab: string
  setTab: (tab: string) => void
}

function Version({ pipeline, version, versions, tab, setTab }: VersionProps) {
  const w = useTexts(pipelineTexts)
  const found = useQuery(versionQuery(pipeline.pipeline_id, version))
  const spec = useMemo(() => pipelineOf(found.data?.pipeline_spec), [found.data])
  if (failure(found)) return <ProblemView error={found.error} />
  if (!found.data) return <Loading />
  const document = found.data.pipeline_spec ?? {}
  const tabs = [
    { id: "graph", label: w("graph"), content: <PipelineGraph spec={spec} /> },
    { id: "parameters", label: w("parameters"), content: <Parameters spec={spec ?? {}} /> },
    {
      id: "versions",
      label: w("versions"),
      content: <Versions pipeline={pipeline.pipeline_id} versions={versions} />,
    },
    { id: "spec", label: w("yaml"), content: <SpecView document={document} /> },
  ]
  return (
    <>
      {found.data.description && found.data.description !== pipeline.description && <p>{found.data.description}</p>}
      <Tabs tabs={tabs} value={tab} onChange={setTab} inside="pt-3" />
    </>
  )
}

export function SpecView({ document }: { document: Record<string, unknown> }) {
  const w = useTexts(pipelineTexts)
  const yaml = useMemo(() => toYaml(document), [document])
  return <CodeView label={w("yaml")} text={yaml} />
}

function Parameters({ spec }: { spec: PipelineSpec }) {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const fields = useMemo(() => parameterFields(spec), [spec])
  const columns = useMemo(
    (): Column<ParameterField>[] => [
      { id: "name", header: c("name"), cell: ({ name }) => <code className="font-mono">{name}</code> },
      { id: "type", header: w("type"), cell: ({ type }) => type },
      {
        id: "default",
        header: w("default"),
        cell: ({ initial, required }) =>
          required ? <Badge>{c("required")}</Badge> : <code className="font-mono break-all">{initial || "–"}</code>,
      },
      { id: "description", header: c("description"), cell: ({ description }) => description },
    ],
    [w, c],
  )
  if (!fields.length) return <p className="text-muted-foreground">{w("noParameters")}</p>
  return <DataTable label={w("parameters")} columns={columns} rows={fields} rowId={({ name }) => name} />
}

function Versions({ pipeline, versions }: { pipeline: string; versions: PipelineVersion[] }) {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  const columns = useMemo(
    (): Column<PipelineVersion>[] => [
      {
        id: "name",
        header: c("name"),
        cell: (version) => (
          <Link
            to="/pipelines/$pipeline/versions/$version"
            params={{ pipeline, version: version.pipeline_version_id }}
            className="font-medium wrap-anywhere text-primary hover:underline"
          >
            {version.display_name}
          </Link>
        ),
      },
      { id: "description", header: c("description"), cell: ({ description }) => description },
      { id: "created", header: c("created"), cell: (version) => <Time at={version.created_at} /> },
      actionsColumn(c("actions"), (version) => (
        <Actions
          name={version.display_name}
          actions={[
            {
              label: w("deleteVersion"),
              icon: <Trash2 />,
              danger: true,
              confirm: {
                title: w("deleteTitle", { name: version.display_name }),
                lead: w("deleteVersionHelp"),
              },
              run: async () => {
                await deleteVersion(pipeline, version.pipeline_version_id)
                note(w("deleted", { name: version.display_name }))
                void navigate({ to: "/pipelines/$pipeline", params: { pipeline }, search: { tab: "versions" } })
              },
            },
          ]}
        />
      )),
    ],
    [w, c, pipeline, navigate],
  )
  return (
    <DataTable
      label={w("versions")}
      columns={columns}
      rows={versions}
      rowId={(version) => version.pipeline_version_id}
    />
  )
}
