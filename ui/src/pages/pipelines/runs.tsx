import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { Archive, ArchiveRestore, Ban, Copy, Play, RotateCw, Trash2 } from "lucide-react"
import { useCallback, useMemo, useState } from "react"
import {
  act,
  experimentOptionsQuery,
  isOver,
  type PipelineRun,
  pipelineOptionsQuery,
  type RunState,
  remove,
  runsQuery,
} from "@/api/pipelines"
import { Actions, CreateLink } from "@/components/actions"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { ChoiceFilter, Filters, SearchBox, StateFilter } from "@/components/filters"
import { Tick } from "@/components/form"
import { Listing, usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Duration, Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { PipelinesNavigation, RunStateBadge } from "./parts"

const route = getRouteApi("/shell/pipelines/runs")
const STATES: RunState[] = ["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELING"]
export const MOST_COMPARED = 10

export function PipelineRunList() {
  const w = useTexts(pipelineTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <Page
      title={w("runsTitle")}
      lead={w("runsLead")}
      actions={<CreateLink to="/pipelines/runs/new">{w("createRun")}</CreateLink>}
      wide
    >
      <PipelinesNavigation />
      <RunsTable
        search={search}
        navigate={navigate}
        experiment={search.experiment}
        isArchive={search.archived === "true"}
        withExperiments
      />
    </Page>
  )
}

interface Search {
  q?: string
  state?: string
  experiment?: string
  archived?: string
  sort?: string
  pages?: string
}

interface TableProps {
  search: Search
  navigate: (to: { search: (before: Search) => Search; replace: boolean }) => unknown
  /** The runs of this experiment only. */
  experiment?: string
  isArchive: boolean
  /** Shows and filters experiments. */
  withExperiments?: boolean
}

/** Runs with their filters, actions, and ticks to compare them. */
export function RunsTable({ search, navigate, experiment, isArchive, withExperiments }: TableProps) {
  const w = useTexts(pipelineTexts)
  const { filter, asked, shown } = listState(search, navigate, "-created_at")
  const [compared, setCompared] = useState<ReadonlySet<string>>(new Set())
  const state = STATES.find((each) => each === search.state)
  const where = { state, storage_state: isArchive ? "ARCHIVED" : "AVAILABLE" }
  const found = usePage(runsQuery({ q: search.q, where, experiment, ...asked }))
  const experiments = useQuery({ ...experimentOptionsQuery, enabled: withExperiments })
  const toggle = useCallback((id: string) => {
    setCompared((before) => {
      const after = new Set(before)
      if (!after.delete(id)) after.add(id)
      return after
    })
  }, [])
  const columns = useRunColumns({ compared, toggle, withExperiments })
  const isFiltered = search.q || search.state || search.experiment || isArchive
  return (
    <>
      <Filters>
        <SearchBox label={w("search")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <StateFilter states={STATES} w={w} value={state} onChange={(state) => filter({ state })} />
        {withExperiments && (
          <ChoiceFilter
            label={w("experiment")}
            all={w("allExperiments")}
            className="w-auto max-w-56"
            choices={(experiments.data?.items ?? []).map((each) => ({
              value: each.experiment_id,
              label: each.display_name,
            }))}
            value={search.experiment}
            onChange={(experiment) => filter({ experiment })}
          />
        )}
        <Tick
          label={w("archivedOnly")}
          checked={isArchive}
          onChange={(event) => filter({ archived: event.target.checked ? "true" : "false" })}
        />
      </Filters>
      <Listing
        label={w("runsTitle")}
        found={found}
        columns={columns}
        rowId={(run) => run.run_id}
        {...shown}
        clear={isFiltered ? () => void navigate({ search: () => ({}), replace: true }) : undefined}
        empty={
          <Empty
            icon={Play}
            title={w("runsEmpty")}
            actions={
              <CreateLink to="/pipelines/runs/new" search={experiment ? { experiment } : {}}>
                {w("createRun")}
              </CreateLink>
            }
          >
            {w("runsEmptyHelp")}
          </Empty>
        }
      />
      {compared.size > 0 && (
        <div className="sticky bottom-3 z-10 flex w-fit items-center gap-2 self-center rounded-lg border bg-card p-2 shadow-lg">
          {compared.size > 1 ? (
            <Button asChild look="primary">
              <Link to="/pipelines/compare" search={{ runs: [...compared].join(",") }}>
                {w("compareCount", { n: compared.size })}
              </Link>
            </Button>
          ) : (
            <span className="px-2 text-muted-foreground">{w("compareTwo")}</span>
          )}
          <Button look="ghost" onClick={() => setCompared(new Set())}>
            {w("clearChoice")}
          </Button>
        </div>
      )}
    </>
  )
}

interface ColumnOptions {
  compared: ReadonlySet<string>
  toggle: (id: string) => void
  withExperiments?: boolean
}

function useRunColumns({ compared, toggle, withExperiments }: ColumnOptions): Column<PipelineRun>[] {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const experiments = useQuery({ ...experimentOptionsQuery, enabled: withExperiments }).data
  const pipelines = useQuery(pipelineOptionsQuery).data
  return useMemo(() => {
    const experimentNames = new Map(experiments?.items.map((each) => [each.experiment_id, each.display_name]))
    const pipelineNames = new Map(pipelines?.items.map((each) => [each.pipeline_id, each.display_name]))
    const columns: (Column<PipelineRun> | false | undefined)[] = [
      {
        id: "compare",
        header: "",
        hideHeader: true,
        className: "w-8 pr-0",
        cell: (run) => (
          <input
            type="checkbox"
            className="size-4 align-middle accent-primary"
            aria-label={w("compareOne", { name: run.display_name })}
            checked={compared.has(run.run_id)}
            disabled={!compared.has(run.run_id) && compared.size >= MOST_COMPARED}
            onChange={() => toggle(run.run_id)}
          />
        ),
      },
      {
        id: "name",
        header: c("name"),
        sort: "display_name",
        cell: (run) => (
          <Link
            to="/pipelines/runs/$run"
            params={{ run: run.run_id }}
            className="font-medium wrap-anywhere text-primary hover:underline"
          >
            {run.display_name}
          </Link>
        ),
      },
      { id: "state", header: w("state"), sort: "state", cell: (run) => <RunStateBadge state={run.state} /> },
      {
        id: "pipeline",
        header: w("pipeline"),
        cell: ({ pipeline_version_reference: of }) =>
          of ? (
            <Link
              to="/pipelines/$pipeline"
              params={{ pipeline: of.pipeline_id }}
              className="wrap-anywhere hover:underline"
            >
              {pipelineNames.get(of.pipeline_id) ?? of.pipeline_id.slice(0, 8)}
            </Link>
          ) : (
            <span className="text-muted-foreground">{w("ownSpec")}</span>
          ),
      },
      withExperiments && {
        id: "experiment",
        header: w("experiment"),
        cell: (run) => (
          <Link
            to="/pipelines/experiments/$experiment"
            params={{ experiment: run.experiment_id }}
            className="wrap-anywhere hover:underline"
          >
            {experimentNames.get(run.experiment_id) ?? run.experiment_id.slice(0, 8)}
          </Link>
        ),
      },
      { id: "created", header: c("created"), sort: "created_at", cell: (run) => <Time at={run.created_at} /> },
      {
        id: "duration",
        header: w("duration"),
        cell: (run) => <Duration started={run.created_at} finished={run.finished_at} />,
      },
      actionsColumn(c("actions"), (run) => <RunActions run={run} />),
    ]
    return columns.filter((column) => column !== false && column !== undefined)
  }, [w, c, compared, toggle, withExperiments, experiments, pipelines])
}

export function RunActions({ run, open }: { run: PipelineRun; open?: boolean }) {
  const w = useTexts(pipelineTexts)
  const navigate = useNavigate()
  const { run_id: id, display_name: name } = run
  const isArchived = run.storage_state === "ARCHIVED"
  const over = isOver(run.state)
  const may = (action: string) => run.may?.includes(action)
  return (
    <Actions
      name={name}
      open={open}
      actions={[
        over || run.state === "CANCELING" || !may("stop")
          ? undefined
          : {
              label: w("terminate"),
              icon: <Ban />,
              confirm: { title: w("terminateTitle", { name }), lead: w("terminateHelp"), danger: true },
              run: () => act("runs", id, "terminate"),
            },
        run.state === "FAILED" && !isArchived && may("retry")
          ? { label: w("retry"), icon: <RotateCw />, run: () => act("runs", id, "retry") }
          : undefined,
        {
          label: w("clone"),
          icon: <Copy />,
          run: () => navigate({ to: "/pipelines/runs/new", search: { clone: id } }),
        },
        !may("archive")
          ? undefined
          : isArchived
            ? { label: w("unarchive"), icon: <ArchiveRestore />, run: () => act("runs", id, "unarchive") }
            : { label: w("archive"), icon: <Archive />, run: () => act("runs", id, "archive") },
        may("delete")
          ? {
              label: w("delete"),
              icon: <Trash2 />,
              danger: true,
              confirm: { title: w("deleteTitle", { name }), lead: w("deleteRunHelp") },
              run: async () => {
                await remove("runs", id)
                note(w("deleted", { name }))
                if (open) void navigate({ to: "/pipelines/runs" })
              },
            }
          : undefined,
      ]}
    />
  )
}
