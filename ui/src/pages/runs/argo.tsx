/** A Workflow that is no run of the platform: its graph with live states, its nodes with logs, and its manifest. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { CalendarClock } from "lucide-react"
import { lazy, Suspense, useMemo } from "react"
import {
  type ArgoNode,
  type ArgoPlace,
  type ArgoWorkflow,
  argoGraphQuery,
  argoWorkflowQuery,
  argoYamlQuery,
  useLiveWorkflow,
} from "@/api/argo"
import { failure } from "@/api/problem"
import { StateBadge } from "@/components/badge"
import { CodeView } from "@/components/code"
import { DetailPage } from "@/components/detail-page"
import { Loading, ProblemView } from "@/components/feedback"
import { Page } from "@/components/page"
import { Duration, Time } from "@/components/time"
import { useRunTasks } from "@/graph/run-tasks"
import { commonTexts } from "@/i18n/common"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { filterNodes } from "@/lib/run-nodes"
import { ArgoActions } from "./actions"
import { ArgoNodePanel } from "./argo-node-panel"
import { NodeSearch } from "./detail"
import { TabsAndPanel } from "./frame"
import { Timeline } from "./timeline"

const route = getRouteApi("/shell/runs/argo/$namespace/$name")
const WorkflowGraph = lazy(() =>
  import("@/graph/workflow-graph").then(({ WorkflowGraph }) => ({ default: WorkflowGraph })),
)
const NO_NODES: ArgoNode[] = []

export function ArgoWorkflowPage() {
  const w = useTexts(runTexts)
  const place = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(argoWorkflowQuery(place))
  const gone = useLiveWorkflow(place)
  const paths = usePaths(found.data?.node_states ?? NO_NODES)
  const tasks = useRunTasks(
    argoGraphQuery(place),
    found.data && { ...found.data, id: found.data.uid, nodes: paths.nodes },
  )
  return (
    <DetailPage
      name={place.name}
      list={{ to: "/runs", title: w("title") }}
      found={found}
      deleted={gone && w("wasDeleted")}
    >
      {(workflow, back) => {
        const select = (node: string | undefined) =>
          void navigate({ search: (before) => ({ ...before, node }), replace: true })
        const filter = { q: search.q, failedOnly: search.failed === "true" }
        const shown = filterNodes(workflow.node_states, filter)
        const isFiltered = Boolean(filter.q || filter.failedOnly)
        const tabs = [
          {
            id: "graph",
            label: w("graph"),
            content: (
              <Graph
                tasks={tasks}
                paths={paths}
                found={isFiltered ? new Set(shown.map((node) => node.path)) : undefined}
                selected={search.node}
                select={select}
              />
            ),
          },
          {
            id: "timeline",
            label: w("timeline"),
            content: (
              <Timeline
                all={workflow.node_states}
                idOf={({ id }) => id}
                shown={shown}
                started={workflow.started}
                goes={workflow.state === "running"}
                select={select}
                selected={search.node}
              />
            ),
          },
          { id: "configuration", label: w("configuration"), content: <Parameters workflow={workflow} /> },
          { id: "yaml", label: w("yaml"), content: <Manifest place={place} /> },
        ]
        return (
          <Page
            wide
            title={workflow.name}
            aside={<StateBadge state={workflow.state} />}
            above={back}
            lead={<Lead workflow={workflow} />}
            actions={<ArgoActions workflow={workflow} open />}
          >
            {workflow.message && (
              <p
                className={
                  workflow.state === "failed"
                    ? "rounded-md border border-failed/40 bg-failed/8 px-3 py-2 break-words"
                    : "rounded-md border bg-muted/60 px-3 py-2 break-words"
                }
              >
                {workflow.message}
              </p>
            )}
            {workflow.node_states.length > 1 && (
              <NodeSearch
                q={search.q ?? ""}
                failedOnly={search.failed === "true"}
                count={isFiltered ? shown.length : undefined}
                all={workflow.node_states.length}
                change={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
                next={() => {
                  const at = shown.findIndex((node) => node.id === search.node)
                  if (shown.length) select(shown[(at + 1) % shown.length]?.id)
                }}
              />
            )}
            <TabsAndPanel
              tabs={tabs}
              view={search.view}
              onView={(view) => void navigate({ search: (before) => ({ ...before, view }), replace: true })}
              node={search.node}
              panel={
                search.node &&
                workflow.node_states.some((node) => node.id === search.node) && (
                  <ArgoNodePanel key={search.node} place={place} node={search.node} />
                )
              }
              tasks={tasks}
            />
          </Page>
        )
      }}
    </DetailPage>
  )
}

function Lead({ workflow }: { workflow: ArgoWorkflow }) {
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const { namespace, schedule, owner_name: owner, team_name: team } = workflow
  return (
    <div className="flex flex-wrap gap-x-4 text-[13px]">
      <span>{w(schedule ? "originCron" : "originArgo")}</span>
      {schedule && (
        <Link
          to="/schedules/$namespace/$name"
          params={{ namespace, name: schedule }}
          className="flex items-center gap-1 text-primary hover:underline"
        >
          <CalendarClock className="size-3.5" aria-hidden />
          {schedule}
        </Link>
      )}
      {workflow.template && (
        <span>
          {w("template")}: {workflow.template}
        </span>
      )}
      {owner && (
        <span>
          {c("owner")}: {owner}
        </span>
      )}
      {team && (
        <span>
          {w("team")}: {team}
        </span>
      )}
      <span>
        {w("namespace")}: {namespace}
      </span>
      {workflow.creator && (
        <span>
          {w("creator")}: {workflow.creator}
        </span>
      )}
      <span>
        {w("started")}: <Time at={workflow.started} />
      </span>
      <span>
        {w("duration")}: <Duration started={workflow.started} finished={workflow.finished} />
      </span>
    </div>
  )
}

interface GraphProps {
  /** Undefined until they are loaded. */
  tasks: ReturnType<typeof useRunTasks>
  paths: ReturnType<typeof usePaths>
  /** The paths of the nodes that a search has found; undefined without a search. */
  found?: ReadonlySet<string>
  selected?: string
  select: (node: string | undefined) => void
}

/** Groups, loops and repeated attempts are opened in place, as in runs of the platform. */
function Graph({ tasks, paths, found, selected, select }: GraphProps) {
  const w = useTexts(runTexts)
  return (
    <section
      aria-label={w("graph")}
      className="h-[calc(100vh-16.5rem)] min-h-96 overflow-hidden rounded-lg border bg-card max-lg:h-[60vh]"
    >
      <Suspense fallback={<Loading className="h-full" />}>
        {tasks ? (
          <WorkflowGraph
            {...tasks}
            selected={selected && (paths.of(selected) ?? selected)}
            select={(path) => select(path && (paths.id(path) ?? path))}
            found={found}
          />
        ) : (
          <Loading className="h-full" />
        )}
      </Suspense>
    </section>
  )
}

/** Nodes are drawn by their paths, and addressed by their ids. */
function usePaths(nodes: readonly ArgoNode[]) {
  return useMemo(() => {
    const leaves = nodes.filter(({ type }) => !GROUPS.has(type))
    const ids = new Map(leaves.map(({ id, path }) => [path, id]))
    const paths = new Map(leaves.map(({ id, path }) => [id, path]))
    return {
      of: (id: string) => paths.get(id),
      id: (path: string) => ids.get(path),
      nodes: leaves.map(({ path, state, attempts }) => ({ name: path, state, attempts })),
    }
  }, [nodes])
}

const GROUPS = new Set(["Steps", "StepGroup", "DAG", "TaskGroup"])

function Parameters({ workflow }: { workflow: ArgoWorkflow }) {
  const w = useTexts(runTexts)
  if (!workflow.parameters.length) return <p className="text-muted-foreground">{w("noArguments")}</p>
  return (
    <dl className="flex max-w-3xl flex-col divide-y rounded-lg border bg-card">
      {workflow.parameters.map(({ name, value }) => (
        <div key={name} className="grid grid-cols-[1fr_2fr] gap-3 p-3">
          <dt className="font-mono break-all">{name}</dt>
          <dd className="font-mono break-all">{value ?? "–"}</dd>
        </div>
      ))}
    </dl>
  )
}

function Manifest({ place }: { place: ArgoPlace }) {
  const w = useTexts(runTexts)
  const found = useQuery(argoYamlQuery(place))
  if (failure(found)) return <ProblemView error={found.error} retry={() => void found.refetch()} />
  if (found.data === undefined) return <Loading />
  return <CodeView label={w("yaml")} text={found.data} />
}
