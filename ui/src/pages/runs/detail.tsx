import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { lazy, Suspense, useCallback, useMemo } from "react"
import { failure } from "@/api/problem"
import { type RunDetail, runGraphQuery, runQuery, useLiveRun } from "@/api/runs"
import { StateBadge } from "@/components/badge"
import { Loading, ProblemView } from "@/components/feedback"
import { Input, Tick } from "@/components/form"
import { Page } from "@/components/page"
import { RunTags } from "@/components/tags"
import { TensorBoardButton } from "@/components/tensorboard-button"
import { Duration, Time } from "@/components/time"
import { type GraphDocument, isGraph } from "@/graph/document"
import { hasLoops, loopGraph, placesOf } from "@/graph/loop-graph"
import type { CardData } from "@/graph/node-card"
import { useRunTasks } from "@/graph/run-tasks"
import { commonTexts } from "@/i18n/common"
import { metricTexts } from "@/i18n/metrics"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { filterNodes } from "@/lib/run-nodes"
import { RunActions } from "./actions"
import { RunBanner } from "./banner"
import { TabsAndPanel } from "./frame"
import { NodePanel } from "./node-panel"
import { Timeline } from "./timeline"

const route = getRouteApi("/shell/runs/$run")
const MetricsPanel = lazy(() =>
  import("@/components/metrics-panel").then(({ MetricsPanel }) => ({ default: MetricsPanel })),
)
const WorkflowGraph = lazy(() =>
  import("@/graph/workflow-graph").then(({ WorkflowGraph }) => ({ default: WorkflowGraph })),
)
const GraphView = lazy(() => import("@/graph/graph-view").then(({ GraphView }) => ({ default: GraphView })))

export function RunPage() {
  const w = useTexts(runTexts)
  const m = useTexts(metricTexts)
  const c = useTexts(commonTexts)
  const { run: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(runQuery(id))
  const tasks = useTasks(found.data)
  useLiveRun(id, Boolean(found.data))
  const select = (node: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, node }), replace: true })
  const openLog = (node: string) =>
    void navigate({ search: (before) => ({ ...before, node, tab: "log" }), replace: true })
  if (failure(found))
    return (
      <Page title={w("title")}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const run = found.data
  const isActive = run.state === "running" || run.state === "waiting"
  const inspects = run.may.includes("inspect")
  const filter = { q: search.q, failedOnly: search.failed === "true" }
  const isFiltered = Boolean(filter.q || filter.failedOnly)
  const shown = isFiltered ? filterNodes(run.node_states, filter) : run.node_states
  const names = isFiltered ? new Set(shown.map(nameOf)) : undefined
  const tabs = [
    {
      id: "graph",
      label: w("graph"),
      content: (
        <section
          aria-label={w("graph")}
          className="h-[calc(100vh-16.5rem)] min-h-96 overflow-hidden rounded-lg border bg-card max-lg:h-[60vh]"
        >
          <Suspense fallback={<Loading className="h-full" />}>
            {tasks ? (
              <WorkflowGraph {...tasks} selected={search.node} select={select} found={names} />
            ) : isGraph(run.document as unknown as GraphDocument) ? (
              <Graph run={run} found={names} selected={search.node} select={select} />
            ) : (
              <Loading className="h-full" />
            )}
          </Suspense>
        </section>
      ),
    },
    {
      id: "timeline",
      label: w("timeline"),
      content: (
        <Timeline
          all={run.node_states}
          idOf={nameOf}
          shown={shown}
          started={run.started}
          goes={run.state === "running"}
          select={select}
          selected={search.node}
        />
      ),
    },
    ...(inspects
      ? [
          {
            id: "metrics",
            label: m("metrics"),
            content: (
              <Suspense fallback={<Loading />}>
                <MetricsPanel of={{ run: id }} />
              </Suspense>
            ),
          },
        ]
      : []),
    { id: "configuration", label: w("configuration"), content: <Configuration run={run} /> },
  ]
  const searches = (
    <NodeSearch
      q={search.q ?? ""}
      failedOnly={search.failed === "true"}
      count={names && shown.length}
      all={run.node_states.length}
      change={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      next={() => {
        const at = shown.findIndex((node) => node.name === search.node)
        if (shown.length) select(shown[(at + 1) % shown.length]?.name)
      }}
    />
  )
  const view = tabs.some((tab) => tab.id === search.view) ? search.view : "graph"
  return (
    <Page
      wide
      title={run.name}
      aside={<StateBadge state={run.stopping && isActive ? "stopping" : run.state} />}
      above={
        <Link to="/runs" className="hover:underline">
          {w("title")}
        </Link>
      }
      lead={
        <div className="flex flex-wrap gap-x-4 text-[13px]">
          <Link
            to="/workflows/$workflow/versions/$version"
            params={{ workflow: run.workflow_id, version: String(run.version_number) }}
            className="text-primary hover:underline"
          >
            {run.workflow_name} {run.version_name}
          </Link>
          <span>
            {c("owner")}: {run.owner_name}
          </span>
          <span>
            {w("started")}: <Time at={run.started} />
          </span>
          <span>
            {w("duration")}: <Duration started={run.started} finished={run.finished} />
          </span>
          {run.retries > 0 && <span>{w("retried", { n: run.retries })}</span>}
          <RunTags run={run.id} tags={run.tags} edits={run.may.includes("edit")} />
        </div>
      }
      actions={
        <>
          {inspects && <TensorBoardButton of={{ runs: [run.id] }} />}
          <RunActions run={run} may={run.may} open />
        </>
      }
    >
      <RunBanner run={run} inspects={inspects} openLog={openLog} />
      {run.node_states.length > 1 && searches}
      <TabsAndPanel
        tabs={tabs}
        view={view}
        onView={(view) => void navigate({ search: (before) => ({ ...before, view }), replace: true })}
        node={search.node}
        panel={
          !inspects ? (
            <p className="p-4 text-muted-foreground">{w("notShared")}</p>
          ) : (
            search.node &&
            run.node_states.some((node) => node.name === search.node) && (
              <NodePanel key={search.node} run={run} node={search.node} select={select} />
            )
          )
        }
        tasks={tasks}
      />
    </Page>
  )
}

const nameOf = ({ name }: { name: string }) => name

/** Enter goes to the next node that was found. */
export function NodeSearch({
  q,
  failedOnly,
  count,
  all,
  change,
  next,
}: {
  q: string
  failedOnly: boolean
  count?: number
  all: number
  change: (change: { q?: string; failed?: string }) => void
  next: () => void
}) {
  const w = useTexts(runTexts)
  return (
    <search className="flex flex-wrap items-center gap-3">
      <Input
        type="search"
        className="h-8 w-56"
        aria-label={w("searchNodes")}
        placeholder={w("searchNodes")}
        value={q}
        onChange={(event) => change({ q: event.target.value || undefined })}
        onKeyDown={(event) => event.key === "Enter" && next()}
      />
      <Tick
        label={w("failedOnly")}
        checked={failedOnly}
        onChange={(event) => change({ failed: event.target.checked ? "true" : undefined })}
      />
      {count !== undefined && (
        <span role="status" className="text-[13px] text-muted-foreground">
          {w("nodesFound", { n: count, all })}
        </span>
      )}
    </search>
  )
}

function Graph({
  run,
  found,
  selected,
  select,
}: {
  run: RunDetail
  /** The nodes that a search has found; undefined without a search. */
  found?: ReadonlySet<string>
  selected?: string
  select: (node: string | undefined) => void
}) {
  const w = useTexts(runTexts)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a version never changes.
  const document = useMemo(() => run.document as unknown as GraphDocument, [run.version_id])
  const states = useMemo(() => new Map(run.node_states.map((node) => [node.name, node])), [run.node_states])
  const extra = useCallback(
    (name: string): Partial<CardData> => {
      const node = states.get(name)
      const state = node?.state ?? "waiting"
      const retried = Math.max(0, (node?.attempts ?? 0) - 1)
      return { state, stateText: w(state), retried, found: found?.has(name) }
    },
    [states, found, w],
  )
  return <GraphView document={document} selected={selected} onSelect={select} extra={extra} center={Boolean(found)} />
}

/** The tasks of a run of a manifest, or of a graph with loops, and their states. */
function useTasks(run: RunDetail | undefined) {
  const document = run?.document as unknown as GraphDocument | undefined
  const isManifest = document !== undefined && !isGraph(document)
  const isLooped = document !== undefined && !isManifest && hasLoops(document)
  const states = run?.node_states
  const names = useMemo(
    () => (isLooped && states ? JSON.stringify(states.map(({ name }) => name)) : "[]"),
    [isLooped, states],
  )
  // biome-ignore lint/correctness/useExhaustiveDependencies: a version never changes.
  const looped = useMemo(() => {
    if (!document || !isLooped) return undefined
    return { graph: loopGraph(document, JSON.parse(names)), places: placesOf(document) }
  }, [isLooped, run?.version_id, names])
  const isDrawn = run && (isManifest || isLooped)
  const tasks = useRunTasks(
    runGraphQuery(run?.id ?? ""),
    isDrawn ? { ...run, nodes: run.node_states } : undefined,
    looped?.graph,
  )
  return useMemo(() => tasks && { ...tasks, places: looped?.places }, [tasks, looped])
}

function Configuration({ run }: { run: RunDetail }) {
  const w = useTexts(runTexts)
  if (run.parameters === null) return <p className="text-muted-foreground">{w("notShared")}</p>
  const written = (run.document as unknown as GraphDocument).parameters ?? []
  const names = [...new Set([...written.map((each) => each.name), ...Object.keys(run.parameters)])]
  if (!names.length) return <p className="text-muted-foreground">{w("noParameters")}</p>
  return (
    <dl className="flex max-w-3xl flex-col divide-y rounded-lg border bg-card">
      {names.map((name) => (
        <div key={name} className="grid grid-cols-[1fr_2fr] gap-3 p-3">
          <dt className="font-mono">{name}</dt>
          <dd className="font-mono break-all">
            {run.parameters?.[name] ?? written.find((each) => each.name === name)?.default ?? "–"}
          </dd>
        </div>
      ))}
    </dl>
  )
}
