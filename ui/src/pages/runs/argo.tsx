/** A Workflow that is no run of the platform: its graph with live states, its nodes with logs, and its manifest. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { CalendarClock } from "lucide-react"
import { lazy, Suspense, useCallback, useMemo } from "react"
import {
  type ArgoNode,
  type ArgoPlace,
  type ArgoWorkflow,
  argoWorkflowQuery,
  argoYamlQuery,
  useLiveWorkflow,
} from "@/api/argo"
import { StateBadge } from "@/components/badge"
import { CodeView } from "@/components/code"
import { DetailPage } from "@/components/detail-page"
import { Loading, ProblemView } from "@/components/feedback"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Duration, Time } from "@/components/time"
import type { GraphDocument } from "@/graph/document"
import type { CardData } from "@/graph/node-card"
import { commonTexts } from "@/i18n/common"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { filterNodes } from "@/lib/run-nodes"
import { ArgoActions } from "./actions"
import { ArgoNodePanel } from "./argo-node-panel"
import { NodeSearch } from "./detail"
import { Timeline } from "./timeline"

const route = getRouteApi("/shell/runs/argo/$namespace/$name")
const GraphView = lazy(() => import("@/graph/graph-view").then(({ GraphView }) => ({ default: GraphView })))

export function ArgoWorkflowPage() {
  const w = useTexts(runTexts)
  const place = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(argoWorkflowQuery(place))
  const gone = useLiveWorkflow(place)
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
        const ids = new Set(shown.map((node) => node.id))
        const isFiltered = Boolean(filter.q || filter.failedOnly)
        const tabs = [
          {
            id: "graph",
            label: w("graph"),
            content: (
              <Graph workflow={workflow} found={isFiltered ? ids : undefined} selected={search.node} select={select} />
            ),
          },
          {
            id: "timeline",
            label: w("timeline"),
            content: (
              <Timeline
                all={workflow.node_states}
                shown={ids}
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
            <div className="flex min-h-0 gap-4 max-lg:flex-col">
              <Tabs
                className="min-w-0 flex-1"
                tabs={tabs}
                value={search.view}
                onChange={(view) => void navigate({ search: (before) => ({ ...before, view }), replace: true })}
                inside="pt-3"
              />
              <aside
                aria-label={w("details")}
                className="h-[calc(100vh-13rem)] min-h-96 w-120 shrink-0 overflow-hidden rounded-lg border bg-card max-lg:w-full"
              >
                {search.node && workflow.node_states.some((node) => node.id === search.node) ? (
                  <ArgoNodePanel key={search.node} place={place} node={search.node} />
                ) : (
                  <p className="p-4 text-muted-foreground">{w("chooseNode")}</p>
                )}
              </aside>
            </div>
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
  workflow: ArgoWorkflow
  /** The nodes that a search has found; undefined without a search. */
  found?: ReadonlySet<string>
  selected?: string
  select: (node: string | undefined) => void
}

/** Nodes are drawn as they come into being. */
function Graph({ workflow, found, selected, select }: GraphProps) {
  const w = useTexts(runTexts)
  const shape = workflow.node_states.map(({ id, children }) => `${id} ${children.join(" ")}`).join("\n")
  // biome-ignore lint/correctness/useExhaustiveDependencies: only new nodes and edges change the drawing.
  const document = useMemo((): GraphDocument => drawing(workflow.node_states), [shape])
  const states = useMemo(() => new Map(workflow.node_states.map((node) => [node.id, node])), [workflow.node_states])
  const extra = useCallback(
    (id: string): Partial<CardData> => {
      const node = states.get(id)
      if (!node) return {}
      return {
        name: node.name,
        subtitle: node.template,
        state: node.state,
        stateText: w(node.state),
        retried: Math.max(0, node.attempts - 1),
        found: found?.has(id),
      }
    },
    [states, found, w],
  )
  return (
    <section
      aria-label={w("graph")}
      className="h-[calc(100vh-16.5rem)] min-h-96 overflow-hidden rounded-lg border bg-card"
    >
      <Suspense fallback={<Loading className="h-full" />}>
        <GraphView document={document} selected={selected} onSelect={select} extra={extra} center={Boolean(found)} />
      </Suspense>
    </section>
  )
}

function drawing(nodes: readonly ArgoNode[]): GraphDocument {
  const known = new Set(nodes.map((node) => node.id))
  return {
    format: 1,
    nodes: nodes.map(({ id }) => ({ name: id })),
    edges: nodes.flatMap(({ id, children }) => children.filter((to) => known.has(to)).map((to) => ({ from: id, to }))),
  }
}

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
  if (found.error) return <ProblemView error={found.error} retry={() => void found.refetch()} />
  if (found.data === undefined) return <Loading />
  return <CodeView label={w("yaml")} text={found.data} />
}
