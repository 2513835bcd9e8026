/** A pipeline run: its graph with live states, results, details and spec. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { CircleX } from "lucide-react"
import { useMemo } from "react"
import {
  experimentQuery,
  isOver,
  type PipelineRun,
  pipelineQuery,
  type RunTask,
  runQuery,
  runTasksQuery,
  versionQuery,
} from "@/api/pipelines"
import { failure } from "@/api/problem"
import { Badge } from "@/components/badge"
import { Loading, ProblemView } from "@/components/feedback"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Duration, Time } from "@/components/time"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { outputArtifacts } from "@/lib/pipeline-artifacts"
import { type GraphTask, parameterFields, pipelineOf, taskGraph } from "@/lib/pipeline-spec"
import { SpecView } from "./detail"
import { NodePanel } from "./node-panel"
import { Above, PipelineGraph, RunStateBadge, Section } from "./parts"
import { RunActions } from "./runs"
import { isShown, Values, Visualisation } from "./visualisations"

const route = getRouteApi("/shell/pipelines/runs/$run")

export function PipelineRunPage() {
  const w = useTexts(pipelineTexts)
  const { run: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(runQuery(id))
  const over = found.data ? isOver(found.data.state) : false
  const tasks = useQuery(runTasksQuery(id, over)).data
  const document = useSpec(found.data)
  const spec = useMemo(() => pipelineOf(document.document), [document.document])
  const selected = useSelected(spec, tasks, search.node)
  if (failure(found))
    return (
      <Page title={w("run")} above={<Above to="/pipelines/runs" word="runsTitle" />}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data || !tasks || document.isPending) return <Loading />
  const run = found.data
  const select = (node: GraphTask | undefined) =>
    void navigate({ search: (before) => ({ ...before, node: node?.id }), replace: true })
  const tabs = [
    {
      id: "graph",
      label: w("graph"),
      content: (
        <div className="flex min-h-0 gap-4 max-lg:flex-col">
          <div className="flex min-w-0 flex-1 flex-col gap-2">
            {!spec && <p className="text-[13px] text-muted-foreground">{w("noSpec")}</p>}
            <PipelineGraph spec={spec} run={{ tasks, over }} selected={search.node} select={select} />
          </div>
          <aside
            aria-label={w("details")}
            className="h-[calc(100vh-16.5rem)] min-h-96 w-120 shrink-0 overflow-hidden rounded-lg border bg-card max-xl:w-88 max-lg:w-full"
          >
            {selected ? (
              <NodePanel key={selected.id} run={run} node={selected} tasks={tasks} />
            ) : (
              <p className="p-4 text-muted-foreground">{w("chooseNode")}</p>
            )}
          </aside>
        </div>
      ),
    },
    { id: "results", label: w("results"), content: <Results run={id} tasks={tasks} /> },
    { id: "details", label: w("details"), content: <Details run={run} defaults={defaultsOf(spec)} /> },
    ...(document.document
      ? [{ id: "spec", label: w("yaml"), content: <SpecView document={document.document} /> }]
      : []),
  ]
  return (
    <Page
      wide
      title={run.display_name}
      aside={
        <>
          <RunStateBadge state={run.state} />
          {run.storage_state === "ARCHIVED" && <Badge>{w("archived")}</Badge>}
        </>
      }
      above={<Above to="/pipelines/runs" word="runsTitle" />}
      lead={<Lead run={run} />}
      actions={<RunActions run={run} open />}
    >
      {run.error && (
        <p
          role="alert"
          className="flex items-start gap-2 rounded-md border border-failed/40 bg-failed/8 px-3 py-2 break-words"
        >
          <CircleX aria-hidden className="mt-0.5 size-4 shrink-0 text-failed" />
          <span className="min-w-0 break-words">{run.error.message}</span>
        </p>
      )}
      <Tabs
        tabs={tabs}
        value={search.view}
        onChange={(view) => void navigate({ search: (before) => ({ ...before, view }), replace: true })}
        inside="pt-3"
      />
    </Page>
  )
}

/** The spec of a run: its own, or that of its version, which may be deleted. */
function useSpec(run: PipelineRun | undefined): { document?: Record<string, unknown>; isPending: boolean } {
  const of = run?.pipeline_version_reference
  const version = useQuery({
    ...versionQuery(of?.pipeline_id ?? "", of?.pipeline_version_id ?? ""),
    enabled: Boolean(of?.pipeline_version_id),
    retry: false,
  })
  return {
    document: run?.pipeline_spec ?? version.data?.pipeline_spec,
    isPending: Boolean(of?.pipeline_version_id) && version.isPending,
  }
}

/** The selected node with its present state. All nodes around it count as opened. */
function useSelected(
  spec: ReturnType<typeof pipelineOf>,
  tasks: readonly RunTask[] | undefined,
  id: string | undefined,
): GraphTask | undefined {
  return useMemo(() => {
    if (!id || !tasks) return undefined
    const parts = (id.split("#")[0] ?? "").split("/")
    const opened = new Set(parts.map((_, index) => parts.slice(0, index + 1).join("/")))
    return taskGraph(spec, { opened, selected: id, withArtifacts: true, tasks }).nodes.find((node) => node.id === id)
  }, [spec, tasks, id])
}

function defaultsOf(spec: ReturnType<typeof pipelineOf>): Record<string, string> {
  return Object.fromEntries(spec ? parameterFields(spec).map(({ name, initial }) => [name, initial]) : [])
}

function Lead({ run }: { run: PipelineRun }) {
  const w = useTexts(pipelineTexts)
  const of = run.pipeline_version_reference
  const pipeline = useQuery({ ...pipelineQuery(of?.pipeline_id ?? ""), enabled: Boolean(of), retry: false })
  const experiment = useQuery({ ...experimentQuery(run.experiment_id), retry: false })
  const link = "text-primary underline"
  return (
    <div className="flex flex-wrap gap-x-4 text-[13px]">
      {of && pipeline.data && (
        <span>
          {w("pipeline")}:{" "}
          <Link
            {...(of.pipeline_version_id
              ? {
                  to: "/pipelines/$pipeline/versions/$version",
                  params: { pipeline: of.pipeline_id, version: of.pipeline_version_id },
                }
              : { to: "/pipelines/$pipeline", params: { pipeline: of.pipeline_id } })}
            className={link}
          >
            {pipeline.data.display_name}
          </Link>
        </span>
      )}
      {experiment.data && (
        <span>
          {w("experiment")}:{" "}
          <Link to="/pipelines/experiments/$experiment" params={{ experiment: run.experiment_id }} className={link}>
            {experiment.data.display_name}
          </Link>
        </span>
      )}
      <span>
        {w("started")}: <Time at={run.created_at} />
      </span>
      <span>
        {w("duration")}: <Duration started={run.created_at} finished={run.finished_at} />
      </span>
      {run.recurring_run_id && (
        <Link to="/pipelines/recurring/$recurring" params={{ recurring: run.recurring_run_id }} className={link}>
          {w("recurring")}
        </Link>
      )}
    </div>
  )
}

/** Everything in the run that can be shown, on one page. */
function Results({ run, tasks }: { run: string; tasks: readonly RunTask[] }) {
  const w = useTexts(pipelineTexts)
  const shown = outputArtifacts(tasks).filter(isShown)
  if (!shown.length) return <p className="text-muted-foreground">{w("noResults")}</p>
  return (
    <ul className="gap-4 xl:columns-2">
      {shown.map((output) => (
        <li
          key={`${output.path}[${output.at}]`}
          className="mb-4 flex min-w-0 break-inside-avoid flex-col gap-2 rounded-lg border bg-card p-4"
        >
          <h2 className="text-sm font-semibold break-all">{output.path}</h2>
          <Visualisation run={run} output={output} />
        </li>
      ))}
    </ul>
  )
}

function Details({ run, defaults }: { run: PipelineRun; defaults: Record<string, string> }) {
  const w = useTexts(pipelineTexts)
  const parameters = { ...defaults, ...run.runtime_config?.parameters }
  return (
    <div className="flex max-w-3xl flex-col gap-5">
      {run.description && <p className="whitespace-pre-line">{run.description}</p>}
      <Section title={w("parameters")}>
        {Object.keys(parameters).length ? (
          <Values label={w("parameters")} values={parameters} />
        ) : (
          <p className="text-muted-foreground">{w("noParameters")}</p>
        )}
      </Section>
      <Section title={w("history")}>
        <ul className="flex flex-col gap-1.5">
          {run.state_history?.map((entry, index) => (
            <li key={index} className="flex flex-wrap items-center gap-2 text-[13px]">
              <RunStateBadge state={entry.state} />
              <Time at={entry.update_time} />
              {entry.error && <span className="break-words text-muted-foreground">{entry.error.message}</span>}
            </li>
          ))}
        </ul>
      </Section>
    </div>
  )
}
