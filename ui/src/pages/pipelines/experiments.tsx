import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { Archive, ArchiveRestore, FlaskConical, Play, Trash2 } from "lucide-react"
import { useMemo, useState } from "react"
import { act, createExperiment, type Experiment, experimentQuery, experimentsQuery, remove } from "@/api/pipelines"
import { failure } from "@/api/problem"
import { Actions, CreateButton } from "@/components/actions"
import { Badge } from "@/components/badge"
import { actionsColumn, type Column } from "@/components/data-table"
import { FormDialog, text } from "@/components/dialog"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Field, Input, TextArea, Tick } from "@/components/form"
import { FilteredList } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { Above, NamespaceField, PipelinesNavigation } from "./parts"
import { RunsTable } from "./runs"

const listRoute = getRouteApi("/shell/pipelines/experiments")
const route = getRouteApi("/shell/pipelines/experiments/$experiment")

export function ExperimentList() {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const search = listRoute.useSearch()
  const navigate = listRoute.useNavigate()
  const list = listState(search, navigate, "-created_at")
  const { filter, asked } = list
  const [creating, setCreating] = useState(false)
  const isArchive = search.archived === "true"
  const where = { storage_state: isArchive ? "ARCHIVED" : "AVAILABLE" }
  const found = usePage(experimentsQuery({ q: search.q, where, ...asked }))
  const columns = useMemo(
    (): Column<Experiment>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "display_name",
        cell: (experiment) => (
          <Link
            to="/pipelines/experiments/$experiment"
            params={{ experiment: experiment.experiment_id }}
            className="font-medium wrap-anywhere text-primary hover:underline"
          >
            {experiment.display_name}
          </Link>
        ),
      },
      {
        id: "description",
        header: c("description"),
        cell: ({ description }) => <p className="line-clamp-2 min-w-40 break-words">{description}</p>,
      },
      {
        id: "lastRun",
        header: w("lastRun"),
        sort: "last_run_created_at",
        cell: (experiment) => <Time at={neverIsEmpty(experiment.last_run_created_at)} />,
      },
      { id: "created", header: c("created"), sort: "created_at", cell: ({ created_at }) => <Time at={created_at} /> },
      actionsColumn(c("actions"), (experiment) => <ExperimentActions experiment={experiment} />),
    ],
    [w, c],
  )
  const create = <CreateButton onClick={() => setCreating(true)}>{w("newExperiment")}</CreateButton>
  return (
    <Page title={w("experiments")} lead={w("experimentsLead")} actions={create} wide>
      <PipelinesNavigation />
      <FilteredList
        list={list}
        search={w("search")}
        filters={
          <Tick
            label={w("archivedOnly")}
            checked={isArchive}
            onChange={(event) => filter({ archived: event.target.checked ? "true" : undefined })}
          />
        }
        label={w("experiments")}
        found={found}
        columns={columns}
        rowId={(experiment) => experiment.experiment_id}
        empty={<Empty icon={FlaskConical} title={w("experimentsEmpty")} actions={create} />}
      />
      {creating && <NewExperiment close={() => setCreating(false)} />}
    </Page>
  )
}

/** Kubeflow's clients know "never" as the beginning of 1970. */
function neverIsEmpty(at: string | undefined): string | undefined {
  return at?.startsWith("1970-01-01T00:00:00") ? undefined : at
}

function NewExperiment({ close }: { close: () => void }) {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  return (
    <FormDialog
      title={w("newExperiment")}
      action={c("create")}
      fields={[]}
      onClose={close}
      onSubmit={async (form) => {
        const made = await createExperiment({
          display_name: text(form, "name"),
          description: text(form, "description"),
          namespace: text(form, "namespace"),
        })
        note(w("created", { name: made.display_name }))
        void navigate({
          to: "/pipelines/experiments/$experiment",
          params: { experiment: made.experiment_id },
        })
      }}
    >
      {() => (
        <>
          <Field label={c("name")}>
            {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" />}
          </Field>
          <Field label={c("description")} optional>
            {(field) => <TextArea {...field} name="description" rows={2} />}
          </Field>
          <NamespaceField />
        </>
      )}
    </FormDialog>
  )
}

export function ExperimentPage() {
  const w = useTexts(pipelineTexts)
  const { experiment: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(experimentQuery(id))
  const above = <Above to="/pipelines/experiments" word="experiments" />
  if (failure(found))
    return (
      <Page title={w("experiment")} above={above}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const experiment = found.data
  return (
    <Page
      wide
      title={experiment.display_name}
      aside={experiment.storage_state === "ARCHIVED" && <Badge>{w("archived")}</Badge>}
      above={above}
      lead={experiment.description}
      actions={<ExperimentActions experiment={experiment} open />}
    >
      <RunsTable
        search={search}
        navigate={navigate}
        experiment={id}
        isArchive={search.archived ? search.archived === "true" : experiment.storage_state === "ARCHIVED"}
      />
    </Page>
  )
}

function ExperimentActions({ experiment, open }: { experiment: Experiment; open?: boolean }) {
  const w = useTexts(pipelineTexts)
  const navigate = useNavigate()
  const { experiment_id: id, display_name: name } = experiment
  const isArchived = experiment.storage_state === "ARCHIVED"
  const run = {
    label: w("createRun"),
    icon: <Play />,
    primary: true,
    run: () => navigate({ to: "/pipelines/runs/new", search: { experiment: id } }),
  }
  const archive = {
    label: w("archive"),
    icon: <Archive />,
    confirm: { title: w("archiveExperimentTitle", { name }), lead: w("archiveExperimentHelp") },
    run: () => act("experiments", id, "archive"),
  }
  const restore = {
    label: w("unarchive"),
    icon: <ArchiveRestore />,
    run: () => act("experiments", id, "unarchive"),
  }
  const drop = {
    label: w("deleteExperiment"),
    icon: <Trash2 />,
    danger: true,
    confirm: { title: w("deleteTitle", { name }), lead: w("deleteExperimentHelp") },
    run: async () => {
      await remove("experiments", id)
      note(w("deleted", { name }))
      if (open) void navigate({ to: "/pipelines/experiments" })
    },
  }
  const may = (action: string) => experiment.may?.includes(action)
  const actions = [
    isArchived ? undefined : run,
    may("archive") ? (isArchived ? restore : archive) : undefined,
    may("delete") ? drop : undefined,
  ]
  return <Actions name={name} actions={actions} open={open} />
}
