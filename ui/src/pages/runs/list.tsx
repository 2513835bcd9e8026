import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Play } from "lucide-react"
import { useMemo } from "react"
import { type Run, type RunState, runsQuery, useLiveRuns } from "@/api/runs"
import { CreateLink } from "@/components/actions"
import { StateBadge } from "@/components/badge"
import { Button } from "@/components/button"
import { CompareBar, compareColumn } from "@/components/compare"
import { actionsColumn, type Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { Filters, OwnerFilter, SearchBox, StateFilter } from "@/components/filters"
import { Listing } from "@/components/listing"
import { Page } from "@/components/page"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { metricTexts } from "@/i18n/metrics"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { RunActions } from "./actions"

const route = getRouteApi("/shell/runs")
const STATES: RunState[] = ["waiting", "running", "succeeded", "failed", "stopped"]

export function RunList() {
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const m = useTexts(metricTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { filter, asked, shown } = listState(search, navigate, "-created")
  const state = STATES.find((each) => each === search.state)
  useLiveRuns()
  const found = useQuery({
    ...runsQuery({
      q: search.q,
      owner: search.owner,
      workflow: search.workflow,
      ...(state ? { state: [state] } : {}),
      ...asked,
    }),
    placeholderData: keepPreviousData,
  })
  const columns = useMemo(
    (): Column<Run>[] => [
      compareColumn(m, (run) => ({ subject: `run:${run.id}`, name: run.name })),
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (run) => (
          <Link to="/runs/$run" params={{ run: run.id }} className="font-medium text-primary hover:underline">
            {run.name}
          </Link>
        ),
      },
      { id: "state", header: w("state"), sort: "state", cell: (run) => <RunStateBadge run={run} /> },
      { id: "progress", header: w("progress"), cell: (run) => `${run.done}/${run.nodes}` },
      {
        id: "workflow",
        header: w("workflow"),
        sort: "workflow",
        cell: (run) => (
          <Link
            to="/workflows/$workflow/versions/$version"
            params={{ workflow: run.workflow_id, version: String(run.version_number) }}
            className="hover:underline"
          >
            {run.workflow_name} <span className="text-muted-foreground">{run.version_name}</span>
          </Link>
        ),
      },
      { id: "owner", header: c("owner"), sort: "owner", cell: (run) => run.owner_name },
      { id: "created", header: c("created"), sort: "created", cell: (run) => <Time at={run.created} /> },
      {
        id: "duration",
        header: w("duration"),
        cell: (run) => <Duration started={run.started} finished={run.finished} />,
      },
      actionsColumn(c("actions"), (run) => <RunActions run={run} />),
    ],
    [w, c, m],
  )
  const create = <CreateLink to="/runs/new">{w("create")}</CreateLink>
  const filtered = search.q || search.state || search.owner || search.workflow
  return (
    <Page title={w("title")} lead={w("lead")} actions={create} wide>
      <Filters>
        <SearchBox label={w("search")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <StateFilter
          label={w("state")}
          all={w("allStates")}
          states={STATES}
          text={w}
          value={state}
          onChange={(state) => filter({ state })}
        />
        <OwnerFilter label={w("whose")} value={search.owner} onChange={(owner) => filter({ owner })} />
      </Filters>
      <Listing
        label={w("title")}
        found={found}
        columns={columns}
        rowId={(run) => run.id}
        {...shown}
        clear={filtered ? () => void navigate({ search: {} }) : undefined}
        empty={
          <Empty
            icon={Play}
            title={w("empty")}
            actions={
              <Button asChild look="primary">
                <Link to="/workflows">{w("toWorkflows")}</Link>
              </Button>
            }
          >
            {w("emptyHelp")}
          </Empty>
        }
      />
      <CompareBar />
    </Page>
  )
}

export function RunStateBadge({ run }: { run: Pick<Run, "state" | "stopping"> }) {
  const ends = run.stopping && (run.state === "running" || run.state === "waiting")
  return <StateBadge state={ends ? "stopping" : run.state} />
}
