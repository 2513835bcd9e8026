/** Two to ten runs side by side: parameters, scalar metrics, ROC curves and confusion matrices. */
import { useQueries } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { GitCompareArrows, X } from "lucide-react"
import { useState } from "react"
import { isOver, type PipelineRun, type RunTask, runQuery, runTasksQuery } from "@/api/pipelines"
import { Button } from "@/components/button"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Tick } from "@/components/form"
import { Page } from "@/components/page"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import {
  type ComparedRow,
  classificationsOf,
  comparedRows,
  outputArtifacts,
  scalarMetrics,
} from "@/lib/pipeline-artifacts"
import { valueText } from "@/lib/pipeline-spec"
import { Above, RunStateBadge, Section } from "./parts"
import { MOST_COMPARED } from "./runs"
import { ConfusionMatrix, RocChart } from "./visualisations"

const route = getRouteApi("/shell/pipelines/compare")

interface Compared {
  run: PipelineRun
  tasks: readonly RunTask[]
}

export function ComparePipelineRuns() {
  const w = useTexts(pipelineTexts)
  const { runs: given = "" } = route.useSearch()
  const navigate = route.useNavigate()
  const ids = [...new Set(given.split(",").filter(Boolean))].slice(0, MOST_COMPARED)
  const runs = useQueries({ queries: ids.map((id) => runQuery(id)) })
  const tasks = useQueries({
    queries: ids.map((id, index) => {
      const state = runs[index]?.data?.state
      return { ...runTasksQuery(id, state !== undefined && isOver(state)), enabled: state !== undefined }
    }),
  })
  const error = [...runs, ...tasks].find((each) => each.error)?.error
  const found = ids.flatMap((_, index): Compared[] => {
    const [run, inside] = [runs[index]?.data, tasks[index]?.data]
    return run && inside ? [{ run, tasks: inside }] : []
  })
  const lists = (
    <Button asChild>
      <Link to="/pipelines/runs">{w("toRuns")}</Link>
    </Button>
  )
  return (
    <Page
      wide
      title={w("compareTitle")}
      lead={w("compareLead")}
      above={<Above to="/pipelines/runs" word="runsTitle" />}
    >
      {error ? (
        <ProblemView error={error} />
      ) : ids.length < 2 ? (
        <Empty icon={GitCompareArrows} title={w("chooseRuns")} actions={lists} />
      ) : found.length < ids.length ? (
        <Loading />
      ) : (
        <Comparison
          found={found}
          drop={(id) => void navigate({ search: { runs: ids.filter((each) => each !== id).join(",") }, replace: true })}
        />
      )}
    </Page>
  )
}

function Comparison({ found, drop }: { found: Compared[]; drop: (id: string) => void }) {
  const w = useTexts(pipelineTexts)
  const [differences, setDifferences] = useState(false)
  const parameters = comparedRows(found.map(parametersOf))
  const metrics = comparedRows(found.map(({ tasks }) => scalarMetrics(tasks)))
  const kept = (rows: ComparedRow[]) => rows.filter((row) => !differences || row.isDifferent)
  const classified = found.flatMap(({ run, tasks }) =>
    outputArtifacts(tasks).flatMap(({ path, artifact }) =>
      classificationsOf(artifact).map((each) => ({
        ...each,
        label: [run.display_name, path, each.slice].filter(Boolean).join(" · "),
      })),
    ),
  )
  const curves = classified.filter(({ roc }) => roc.length).map(({ label, roc }) => ({ label, points: roc }))
  const matrices = classified.flatMap(({ label, matrix }) => (matrix ? [{ label, matrix }] : []))
  return (
    <>
      <Tick
        label={w("differencesOnly")}
        checked={differences}
        onChange={(event) => setDifferences(event.target.checked)}
      />
      <Section title={w("parameters")}>
        {parameters.length ? (
          <Table label={w("parameters")} found={found} rows={kept(parameters)} drop={drop} />
        ) : (
          <p className="text-muted-foreground">{w("noParameters")}</p>
        )}
      </Section>
      <Section title={w("scalarMetrics")}>
        {metrics.length ? (
          <Table label={w("scalarMetrics")} found={found} rows={kept(metrics)} drop={drop} />
        ) : (
          <p className="text-muted-foreground">{w("noScalars")}</p>
        )}
      </Section>
      {curves.length > 0 && (
        <div className="max-w-2xl rounded-lg border bg-card p-4">
          <RocChart curves={curves} />
        </div>
      )}
      {matrices.length > 0 && (
        <div className="grid items-start gap-4 xl:grid-cols-2">
          {matrices.map(({ label, matrix }) => (
            <div key={label} className="min-w-0 rounded-lg border bg-card p-4">
              <ConfusionMatrix matrix={matrix} title={label} />
            </div>
          ))}
        </div>
      )}
    </>
  )
}

/** What the pipeline was given: also the defaults, which the root of the run has. */
function parametersOf({ run, tasks }: Compared): Record<string, string> {
  const root = tasks.find((task) => task.node.kind === "root")
  const values = { ...root?.node.inputs.parameterValues, ...run.runtime_config?.parameters }
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, valueText(value)]))
}

interface TableProps {
  label: string
  found: Compared[]
  rows: ComparedRow[]
  drop: (id: string) => void
}

function Table({ label, found, rows, drop }: TableProps) {
  const w = useTexts(pipelineTexts)
  return (
    <div className="overflow-x-auto rounded-lg border bg-card" tabIndex={0} role="region" aria-label={label}>
      <table className="w-full text-left text-[13px]">
        <thead>
          <tr className="border-b">
            <th scope="col" className="px-3 py-2 font-medium text-muted-foreground">
              {label}
            </th>
            {found.map(({ run }) => (
              <th key={run.run_id} scope="col" className="px-3 py-2 font-medium">
                <span className="flex items-center gap-2">
                  <Link to="/pipelines/runs/$run" params={{ run: run.run_id }} className="text-primary hover:underline">
                    {run.display_name}
                  </Link>
                  <RunStateBadge state={run.state} />
                  <Button
                    look="ghost"
                    size="icon"
                    aria-label={w("removeRun", { name: run.display_name })}
                    onClick={() => drop(run.run_id)}
                  >
                    <X aria-hidden />
                  </Button>
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name} className={classes("border-b last:border-0", row.isDifferent && "bg-warning/8")}>
              <th scope="row" className="px-3 py-1.5 font-mono font-medium">
                {row.name}
              </th>
              {row.values.map((value, index) => (
                <td key={found[index]?.run.run_id} className="px-3 py-1.5 font-mono break-all">
                  {value ?? <span className="text-muted-foreground">–</span>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
