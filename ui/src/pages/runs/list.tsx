import { getRouteApi, Link } from "@tanstack/react-router"
import { CalendarClock, Network, Play, SquareTerminal, Waypoints, Workflow, X } from "lucide-react"
import { type ComponentType, type ReactNode, useMemo } from "react"
import { type AnyRun, type AnyRunState, allRunsQuery, type Origin, useLiveAllRuns } from "@/api/argo"
import { CreateLink } from "@/components/actions"
import { StateBadge } from "@/components/badge"
import { Button } from "@/components/button"
import { CompareBar, compareColumn } from "@/components/compare"
import { actionsColumn, type Column } from "@/components/data-table"
import { ChoiceFilter, OwnerFilter, StateFilter } from "@/components/filters"
import { ListPage } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { TagFilter, TagList } from "@/components/tags"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { metricTexts } from "@/i18n/metrics"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { AnyRunActions } from "./actions"

const route = getRouteApi("/shell/runs")
const STATES: AnyRunState[] = ["waiting", "running", "suspended", "succeeded", "failed", "stopped"]

export const ORIGINS: Record<Origin, { word: keyof typeof runTexts; icon: ComponentType<{ className?: string }> }> = {
  workflow: { word: "originWorkflow", icon: Workflow },
  argo: { word: "originArgo", icon: SquareTerminal },
  cron: { word: "originCron", icon: CalendarClock },
  pipeline: { word: "originPipeline", icon: Waypoints },
  job: { word: "originJob", icon: Network },
}
const ORIGIN_NAMES = Object.keys(ORIGINS) as Origin[]

export function RunList() {
  const w = useTexts(runTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created")
  const { filter, asked } = list
  const state = STATES.find((each) => each === search.state)
  const origin = ORIGIN_NAMES.find((each) => each === search.origin)
  useLiveAllRuns()
  const found = usePage(
    allRunsQuery({
      q: search.q,
      owner: search.owner,
      workflow: search.workflow,
      tag: search.tag ? [search.tag] : undefined,
      state: state && [state],
      origin: origin && [origin],
      ...asked,
    }),
  )
  const columns = useAnyRunColumns((tag) => filter({ tag }))
  const create = <CreateLink to="/runs/new">{w("create")}</CreateLink>
  return (
    <ListPage
      w={w}
      list={list}
      found={found}
      columns={columns}
      rowId={(run) => run.id}
      icon={Play}
      create={create}
      start={
        <Button asChild look="primary">
          <Link to="/workflows">{w("toWorkflows")}</Link>
        </Button>
      }
      filters={
        <>
          <ChoiceFilter
            label={w("origin")}
            all={w("allOrigins")}
            choices={ORIGIN_NAMES.map((value) => ({ value, label: w(ORIGINS[value].word) }))}
            value={origin}
            onChange={(origin) => filter({ origin })}
          />
          <StateFilter states={STATES} w={w} value={state} onChange={(state) => filter({ state })} />
          <TagFilter value={search.tag} onChange={(tag) => filter({ tag })} />
          <OwnerFilter value={search.owner} onChange={(owner) => filter({ owner })} />
          {search.workflow && (
            <Button size="small" onClick={() => filter({ workflow: undefined })}>
              {w("ofWorkflow", { name: found.data?.items[0]?.source ?? search.workflow })}
              <X />
            </Button>
          )}
        </>
      }
    >
      <CompareBar />
    </ListPage>
  )
}

/** The columns of a list of everything that ran. `chooseTag` filters the list by a tag. */
export function useAnyRunColumns(chooseTag?: (tag: string) => void): Column<AnyRun>[] {
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const m = useTexts(metricTexts)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `chooseTag` only changes the address.
  return useMemo(
    (): Column<AnyRun>[] => [
      compareColumn(m, (run) => compared(run)),
      {
        id: "name",
        header: c("name"),
        className: "min-w-44",
        cell: (run) => (
          <div className="flex flex-col items-start gap-1">
            <RunLink run={run} className="font-medium wrap-anywhere text-primary hover:underline">
              {run.name}
            </RunLink>
            <TagList tags={run.tags} choose={chooseTag} />
          </div>
        ),
      },
      {
        id: "state",
        header: w("state"),
        cell: (run) => <StateBadge state={run.stopping ? "stopping" : run.state} />,
      },
      { id: "origin", header: w("origin"), cell: (run) => <OriginCell run={run} /> },
      {
        id: "progress",
        header: w("progress"),
        cell: (run) => (run.nodes ? `${run.done}/${run.nodes}` : <span className="text-muted-foreground">–</span>),
      },
      { id: "owner", header: c("owner"), cell: (run) => run.owner_name ?? run.team_name ?? run.namespace },
      { id: "created", header: c("created"), sort: "created", cell: (run) => <Time at={run.created} /> },
      {
        id: "duration",
        header: w("duration"),
        cell: (run) => <Duration started={run.started} finished={run.finished} />,
      },
      actionsColumn(c("actions"), (run) => <AnyRunActions run={run} />),
    ],
    [w, c, m],
  )
}

/** Only runs of the platform and training jobs write metrics. */
function compared({ origin, id, namespace, kind, name }: AnyRun): { subject: string; name: string } | undefined {
  if (origin === "workflow") return { subject: `run:${id}`, name }
  if (origin === "job") return { subject: `job:${namespace}/${kind}/${name}`, name }
  return undefined
}

/** The page of a run, wherever it came from. */
export function RunLink({ run, className, children }: { run: AnyRun; className?: string; children: ReactNode }) {
  const { origin, id, namespace, name, kind } = run
  if (origin === "workflow")
    return (
      <Link to="/runs/$run" params={{ run: id }} className={className}>
        {children}
      </Link>
    )
  if (origin === "pipeline")
    return (
      <Link to="/pipelines/runs/$run" params={{ run: id }} className={className}>
        {children}
      </Link>
    )
  if (origin === "job")
    return (
      <Link to="/jobs/$namespace/$kind/$name" params={{ namespace, kind, name }} className={className}>
        {children}
      </Link>
    )
  return (
    <Link to="/runs/argo/$namespace/$name" params={{ namespace, name }} className={className}>
      {children}
    </Link>
  )
}

/** What started it: an icon, the kind, and the name of what it was started from. */
function OriginCell({ run }: { run: AnyRun }) {
  const w = useTexts(runTexts)
  const { word, icon: Icon } = ORIGINS[run.origin]
  return (
    <span className="flex items-center gap-2">
      <span title={w(word)} className="shrink-0 text-muted-foreground">
        <Icon className="size-4" aria-hidden />
        <span className="sr-only">{w(word)}</span>
      </span>
      <span className="min-w-0 break-words">
        <Source run={run} otherwise={w(word)} />
      </span>
      {run.scheduled && run.origin !== "cron" && (
        <span title={w("scheduledRun")} className="shrink-0 text-muted-foreground">
          <CalendarClock className="size-3.5" aria-hidden />
          <span className="sr-only">{w("scheduledRun")}</span>
        </span>
      )}
    </span>
  )
}

function Source({ run, otherwise }: { run: AnyRun; otherwise: string }) {
  const { origin, source, source_id: id, version, version_name: versionName, namespace } = run
  if (!source) return <span className="text-muted-foreground">{otherwise}</span>
  if (origin === "workflow")
    return (
      <Link to="/workflows/$workflow/versions/$version" params={{ workflow: id, version }} className="hover:underline">
        {source} <span className="text-muted-foreground">{versionName}</span>
      </Link>
    )
  if (origin === "pipeline" && id)
    return (
      <Link to="/pipelines/$pipeline" params={{ pipeline: id }} className="hover:underline">
        {source}
      </Link>
    )
  if (origin === "cron")
    return (
      <Link to="/schedules/$namespace/$name" params={{ namespace, name: source }} className="hover:underline">
        {source}
      </Link>
    )
  return source
}
