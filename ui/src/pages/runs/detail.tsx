import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { lazy, Suspense, useCallback, useMemo } from "react"
import { type RunDetail, runQuery, useLiveRun } from "@/api/runs"
import { usePreferences } from "@/app/preferences"
import { Loading, ProblemView } from "@/components/feedback"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Duration, Time } from "@/components/time"
import { type GraphDocument, isGraph } from "@/graph/document"
import type { CardData } from "@/graph/node-card"
import { commonTexts } from "@/i18n/common"
import { runTexts } from "@/i18n/runs"
import { statusMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { RunActions } from "./actions"
import { RunStateBadge } from "./list"
import { NodePanel } from "./node-panel"
import { Timeline } from "./timeline"

const route = getRouteApi("/shell/runs/$run")
const GraphView = lazy(() => import("@/graph/graph-view").then(({ GraphView }) => ({ default: GraphView })))

export function RunPage() {
  const language = usePreferences((all) => all.language)
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const { run: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(runQuery(id))
  useLiveRun(id)
  const select = (node: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, node }), replace: true })
  if (found.error)
    return (
      <Page title={w("title")}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const run = found.data
  const inspects = run.may.includes("inspect")
  const tabs = [
    { id: "graph", label: w("graph"), content: <Graph run={run} selected={search.node} select={select} /> },
    { id: "timeline", label: w("timeline"), content: <Timeline run={run} select={select} selected={search.node} /> },
    { id: "configuration", label: w("configuration"), content: <Configuration run={run} /> },
  ]
  const view = tabs.some((tab) => tab.id === search.view) ? search.view : "graph"
  return (
    <Page
      wide
      title={run.name}
      aside={<RunStateBadge run={run} />}
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
        </div>
      }
      actions={<RunActions run={run} may={run.may} open />}
    >
      {run.message && (run.state === "failed" || run.state === "stopped") && (
        <p className="rounded-md border border-failed/40 bg-failed/8 px-3 py-2 break-words">
          {statusMessage(run, language)}
        </p>
      )}
      <div className="flex min-h-0 gap-4 max-lg:flex-col">
        <Tabs
          className="min-w-0 flex-1"
          tabs={tabs}
          value={view}
          onChange={(view) => void navigate({ search: (before) => ({ ...before, view }), replace: true })}
          inside="pt-3"
        />
        <aside
          aria-label={w("details")}
          className="h-[calc(100vh-13rem)] min-h-96 w-120 shrink-0 overflow-hidden rounded-lg border bg-card max-lg:w-full"
        >
          {!inspects ? (
            <p className="p-4 text-muted-foreground">{w("notShared")}</p>
          ) : search.node && run.node_states.some((node) => node.name === search.node) ? (
            <NodePanel key={search.node} run={run} node={search.node} />
          ) : (
            <p className="p-4 text-muted-foreground">{w("chooseNode")}</p>
          )}
        </aside>
      </div>
    </Page>
  )
}

function Graph({
  run,
  selected,
  select,
}: {
  run: RunDetail
  selected?: string
  select: (node: string | undefined) => void
}) {
  const w = useTexts(runTexts)
  const written = run.document as unknown as GraphDocument
  const names = run.node_states.map((node) => node.name).join("\n")
  // biome-ignore lint/correctness/useExhaustiveDependencies: a version never changes; of a manifest, only the names of its nodes are drawn.
  const document = useMemo(
    (): GraphDocument =>
      isGraph(written)
        ? written
        : { format: 1, nodes: names ? names.split("\n").map((name) => ({ name })) : [], edges: [] },
    [run.version_id, names],
  )
  const states = useMemo(() => new Map(run.node_states.map((node) => [node.name, node])), [run.node_states])
  const extra = useCallback(
    (name: string): Partial<CardData> => {
      const node = states.get(name)
      const state = node?.state ?? "waiting"
      return { state, stateText: w(state), retried: Math.max(0, (node?.attempts ?? 0) - 1) }
    },
    [states, w],
  )
  return (
    <section
      aria-label={w("graph")}
      className="h-[calc(100vh-16.5rem)] min-h-96 overflow-hidden rounded-lg border bg-card"
    >
      <Suspense fallback={<Loading className="h-full" />}>
        <GraphView document={document} selected={selected} onSelect={select} extra={extra} />
      </Suspense>
    </section>
  )
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
