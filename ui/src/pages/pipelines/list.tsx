import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { Play, Trash2, Upload, Waypoints } from "lucide-react"
import { useMemo, useState } from "react"
import { deletePipeline, type Pipeline, pipelinesQuery, uploadPipeline } from "@/api/pipelines"
import { Actions } from "@/components/actions"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { FilteredList } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { PipelinesNavigation, UploadDialog } from "./parts"

const route = getRouteApi("/shell/pipelines")

export function PipelineList() {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created_at")
  const [uploading, setUploading] = useState(false)
  const found = usePage(pipelinesQuery({ q: search.q, ...list.asked }))
  const columns = useMemo(
    (): Column<Pipeline>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "display_name",
        cell: (pipeline) => (
          <Link
            to="/pipelines/$pipeline"
            params={{ pipeline: pipeline.pipeline_id }}
            className="font-medium wrap-anywhere text-primary hover:underline"
          >
            {pipeline.display_name}
          </Link>
        ),
      },
      {
        id: "description",
        header: c("description"),
        cell: (pipeline) => <p className="line-clamp-2 min-w-40 break-words">{pipeline.description}</p>,
      },
      {
        id: "created",
        header: c("created"),
        sort: "created_at",
        cell: (pipeline) => <Time at={pipeline.created_at} />,
      },
      actionsColumn(c("actions"), (pipeline) => <PipelineActions pipeline={pipeline} />),
    ],
    [c],
  )
  const upload = (
    <Button look="primary" onClick={() => setUploading(true)}>
      <Upload />
      {w("upload")}
    </Button>
  )
  return (
    <Page title={w("title")} lead={w("lead")} actions={upload} wide>
      <PipelinesNavigation />
      <FilteredList
        list={list}
        search={w("search")}
        label={w("title")}
        found={found}
        columns={columns}
        rowId={(pipeline) => pipeline.pipeline_id}
        empty={
          <Empty icon={Waypoints} title={w("empty")} actions={upload}>
            {w("emptyHelp")}
          </Empty>
        }
      />
      {uploading && (
        <UploadDialog
          title={w("upload")}
          close={() => setUploading(false)}
          send={async ({ namespace, ...sent }) => {
            const made = await uploadPipeline(sent, namespace)
            note(w("uploaded", { name: made.display_name }))
            void navigate({ to: "/pipelines/$pipeline", params: { pipeline: made.pipeline_id } })
          }}
        />
      )}
    </Page>
  )
}

export function PipelineActions({ pipeline, open }: { pipeline: Pipeline; open?: boolean }) {
  const w = useTexts(pipelineTexts)
  const navigate = useNavigate()
  const { pipeline_id: id, display_name: name } = pipeline
  const run = {
    label: w("createRun"),
    icon: <Play />,
    primary: true,
    run: () => navigate({ to: "/pipelines/runs/new", search: { pipeline: id } }),
  }
  const remove = {
    label: w("deletePipeline"),
    icon: <Trash2 />,
    danger: true,
    confirm: { title: w("deleteTitle", { name }), lead: w("deletePipelineHelp") },
    run: async () => {
      await deletePipeline(id)
      note(w("deleted", { name }))
      if (open) void navigate({ to: "/pipelines" })
    },
  }
  const removes = pipeline.may?.includes("delete")
  return <Actions name={name} actions={[run, removes ? remove : undefined]} open={open} />
}
