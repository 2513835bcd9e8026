import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Copy, Download, Pencil, Play } from "lucide-react"
import { lazy, Suspense, useMemo } from "react"
import { failure } from "@/api/problem"
import {
  manifestAddress,
  manifestQuery,
  type VersionDetail,
  versionGraphQuery,
  versionQuery,
  workflowQuery,
} from "@/api/workflows"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { Loading, ProblemView } from "@/components/feedback"
import { Menu } from "@/components/menu"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { NodeForm } from "@/editor/node-form"
import type { GraphDocument } from "@/graph/document"
import { drawn } from "@/graph/drawing"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"

const route = getRouteApi("/shell/workflows/$workflow/versions/$version")
const GraphView = lazy(() => import("@/graph/graph-view").then(({ GraphView }) => ({ default: GraphView })))
const WorkflowGraph = lazy(() =>
  import("@/graph/workflow-graph").then(({ WorkflowGraph }) => ({ default: WorkflowGraph })),
)
const TaskDetails = lazy(() => import("@/graph/workflow-graph").then(({ TaskDetails }) => ({ default: TaskDetails })))

export function VersionPage() {
  const w = useTexts(workflowTexts)
  const { workflow, version } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(versionQuery(workflow, version))
  const mayAdd = useQuery(workflowQuery(workflow)).data?.may.includes("create version") ?? false
  if (failure(found))
    return (
      <Page title={w("version")}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const whole = found.data
  const number = String(whole.number)
  const params = { workflow, version: number }
  const tabs = [
    {
      id: "graph",
      label: w("graph"),
      content: whole.type === "graph" ? <Graph version={whole} /> : <Tasks workflow={workflow} version={number} />,
    },
    { id: "parameters", label: w("parameters"), content: <Parameters version={whole} /> },
    { id: "yaml", label: w("viewYaml"), content: <Manifest workflow={workflow} version={number} /> },
    { id: "details", label: w("details"), content: <Details version={whole} /> },
  ]
  return (
    <Page
      wide
      title={`${whole.workflow_name} · ${whole.name}`}
      aside={whole.archived && <Badge>{w("archived")}</Badge>}
      above={
        <>
          <Link to="/workflows" className="hover:underline">
            {w("title")}
          </Link>
          {" / "}
          <Link to="/workflows/$workflow" params={{ workflow }} className="hover:underline">
            {whole.workflow_name}
          </Link>
        </>
      }
      lead={whole.description}
      actions={
        <>
          <Button asChild>
            <a href={manifestAddress(workflow, number)} download>
              <Download />
              {w("exportYaml")}
            </a>
          </Button>
          <Menu
            items={[
              ...(mayAdd
                ? [
                    {
                      label: w("copySame"),
                      onSelect: () =>
                        void navigate({ to: "/workflows/$workflow/versions/$version/copy", params, search: {} }),
                    },
                  ]
                : []),
              {
                label: w("copyNew"),
                onSelect: () =>
                  void navigate({ to: "/workflows/$workflow/versions/$version/copy", params, search: { into: "new" } }),
              },
            ]}
          >
            <Button>
              <Copy />
              {w("copyVersion")}
            </Button>
          </Menu>
          <Button asChild>
            {mayAdd ? (
              <Link to="/workflows/$workflow/new-version" params={{ workflow }} search={{ from: number }}>
                <Pencil />
                {w("newVersion")}
              </Link>
            ) : (
              <Link to="/workflows/$workflow/versions/$version/copy" params={params} search={{ into: "new" }}>
                <Pencil />
                {w("saveAsNew")}
              </Link>
            )}
          </Button>
          {!whole.archived && (
            <Button asChild look="primary">
              <Link to="/runs/new" search={{ workflow: whole.workflow_id, version: number }}>
                <Play />
                {w("run")}
              </Link>
            </Button>
          )}
        </>
      }
    >
      <Tabs
        tabs={tabs}
        value={search.tab}
        onChange={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
        inside="pt-4"
      />
    </Page>
  )
}

function Graph({ version }: { version: VersionDetail }) {
  const w = useTexts(workflowTexts)
  const { node: selected } = route.useSearch()
  const navigate = route.useNavigate()
  const document = version.document as unknown as GraphDocument
  const { drawing } = useMemo(() => drawn(document), [document])
  const node = drawing.nodes.find((each) => each.name === selected)
  const select = (node: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, node }), replace: true })
  return (
    <GraphAndDetails
      graph={<GraphView document={document} selected={selected} onSelect={select} />}
      details={
        node && (
          <>
            {version.hidden && node.env?.some((variable) => variable.secret) && (
              <p className="px-4 pt-3 text-[13px] text-muted-foreground">{w("hiddenSecrets")}</p>
            )}
            <NodeForm key={node.key} drawing={drawing} node={node} />
          </>
        )
      }
    />
  )
}

/** The graph of a version that is an Argo Workflow. */
function Tasks({ workflow, version }: { workflow: string; version: string }) {
  const { node: selected } = route.useSearch()
  const navigate = route.useNavigate()
  const graph = useQuery(versionGraphQuery(workflow, version))
  if (failure(graph)) return <ProblemView error={graph.error} retry={() => void graph.refetch()} />
  if (!graph.data) return <Loading />
  const select = (node: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, node }), replace: true })
  return (
    <GraphAndDetails
      graph={<WorkflowGraph graph={graph.data} selected={selected} select={select} />}
      details={selected && <TaskDetails graph={graph.data} id={selected} />}
    />
  )
}

/** Beside each other, or one above the other if there is no room. */
function GraphAndDetails({ graph, details }: { graph: React.ReactNode; details: React.ReactNode }) {
  const w = useTexts(workflowTexts)
  return (
    <div className="flex overflow-hidden rounded-lg border bg-card max-xl:flex-col xl:h-[calc(100vh-15rem)] xl:min-h-96">
      <section aria-label={w("graph")} className="min-w-0 flex-1 max-xl:h-[60vh] max-xl:min-h-80 max-xl:flex-none">
        <Suspense fallback={<Loading className="h-full" />}>{graph}</Suspense>
      </section>
      <aside
        aria-label={w("details")}
        tabIndex={0}
        className="shrink-0 overflow-y-auto max-xl:border-t xl:w-88 xl:border-l"
      >
        <Suspense fallback={<Loading />}>
          {details || <p className="p-4 text-muted-foreground">{w("chooseNode")}</p>}
        </Suspense>
      </aside>
    </div>
  )
}

function Parameters({ version }: { version: VersionDetail }) {
  const w = useTexts(workflowTexts)
  const c = useTexts(commonTexts)
  if (!version.parameters.length) return <p className="text-muted-foreground">{w("noParameters")}</p>
  return (
    <dl className="flex max-w-3xl flex-col divide-y rounded-lg border bg-card">
      {version.parameters.map((parameter) => (
        <div key={parameter.name} className="grid grid-cols-[1fr_2fr] gap-3 p-3">
          <dt className="font-mono font-medium">
            {parameter.name}
            {parameter.required && <Badge className="ml-2 font-sans">{c("required")}</Badge>}
          </dt>
          <dd>
            <code className="font-mono break-all">{parameter.default ?? "–"}</code>
            {parameter.description && <p className="text-[13px] text-muted-foreground">{parameter.description}</p>}
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Manifest({ workflow, version }: { workflow: string; version: string }) {
  const manifest = useQuery(manifestQuery(workflow, version))
  if (failure(manifest)) return <ProblemView error={manifest.error} />
  if (manifest.data === undefined) return <Loading />
  return (
    <pre
      tabIndex={0}
      className="max-h-[70vh] overflow-auto rounded-lg border bg-card p-4 font-mono text-[13px] leading-5"
    >
      {manifest.data}
    </pre>
  )
}

function Details({ version }: { version: VersionDetail }) {
  const w = useTexts(workflowTexts)
  const c = useTexts(commonTexts)
  const rows: [string, React.ReactNode][] = [
    [c("author"), version.author_name],
    [c("created"), <Time key="t" at={version.created} />],
    [w("type"), version.type === "graph" ? w("typeGraph") : w("typeYaml")],
    [w("nodes"), version.type === "graph" ? version.nodes : "–"],
    [
      w("hash"),
      <code key="h" className="font-mono text-[13px] break-all">
        {version.hash}
      </code>,
    ],
    [c("description"), version.description || "–"],
  ]
  return (
    <dl className="flex max-w-3xl flex-col divide-y rounded-lg border bg-card">
      {rows.map(([name, value]) => (
        <div key={name} className="grid grid-cols-[1fr_3fr] gap-3 p-3">
          <dt className="text-muted-foreground">{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
