/** The panel of one task, loop or artifact of a pipeline run. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { type ReactNode, useState } from "react"
import {
  artifactUsesQuery,
  isOver,
  logAddress,
  logQuery,
  type PipelineRun,
  type RunTask,
  type TaskValues,
} from "@/api/pipelines"
import { failure } from "@/api/problem"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { ProblemView } from "@/components/feedback"
import { Select } from "@/components/form"
import { LogView } from "@/components/log-view"
import { Tabs } from "@/components/tabs"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { useTexts } from "@/i18n/translate"
import { type OutputArtifact, pathOf, shortType, typeOf } from "@/lib/pipeline-artifacts"
import type { GraphTask } from "@/lib/pipeline-spec"
import { RunStateBadge } from "./parts"
import { ArtifactView, isShown, Values } from "./visualisations"

const route = getRouteApi("/shell/pipelines/runs/$run")
const TAIL_LINES = 1000

interface PanelProps {
  run: PipelineRun
  node: GraphTask
  tasks: readonly RunTask[]
}

export function NodePanel({ run, node, tasks }: PanelProps) {
  const w = useTexts(pipelineTexts)
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const { task } = node
  const title = (
    <div className="flex items-center gap-2 px-4 py-2.5">
      <h2 className="truncate" title={node.id}>
        {node.name}
      </h2>
      {task && !node.artifact && <RunStateBadge state={task.state} />}
      {task?.node.cached && <Badge>{w("cached")}</Badge>}
      {node.artifact && <Badge>{shortType(node.artifact.type)}</Badge>}
      {task && !node.artifact && (
        <span className="ml-auto text-[13px] text-muted-foreground">
          <Duration
            started={task.start_time}
            finished={task.end_time ?? (isOver(task.state) ? task.start_time : null)}
          />
        </span>
      )}
    </div>
  )
  if (node.artifact)
    return (
      <div className="flex h-full min-h-0 flex-col">
        {title}
        <div className="min-h-0 flex-1 overflow-y-auto border-t" tabIndex={0} role="region" aria-label={w("artifact")}>
          <Artifacts run={run.run_id} outputs={outputsOf(task, node.artifact.key)} />
          <Lineage run={run.run_id} tasks={tasks} artifact={outputsOf(task, node.artifact.key)[0]} />
        </div>
      </div>
    )
  if (!task)
    return (
      <>
        {title}
        <p className="px-4 text-muted-foreground">{w(isOver(run.state) ? "NOT_RUN" : "PENDING")}</p>
      </>
    )
  const outputs = outputsOf(task)
  const tabs = [
    { id: "io", label: w("inputsOutputs"), content: <InputsOutputs run={run.run_id} task={task} /> },
    ...(outputs.some(isShown)
      ? [
          {
            id: "visualisation",
            label: w("visualisation"),
            content: <Artifacts run={run.run_id} outputs={outputs.filter(isShown)} />,
          },
        ]
      : []),
    { id: "details", label: w("details"), content: <Details id={node.id} task={task} tasks={tasks} /> },
    { id: "log", label: w("logs"), content: <Logs run={run} task={task} /> },
  ]
  return (
    <div className="flex h-full min-h-0 flex-col">
      {title}
      {task.error && <p className="px-4 pb-2 text-[13px] break-words text-failed">{task.error.message}</p>}
      <Tabs
        className="flex-1"
        tabs={tabs}
        value={tabs.some((each) => each.id === tab) ? tab : "io"}
        onChange={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
        inside="overflow-y-auto"
      />
    </div>
  )
}

/** The output artifacts of a task, or those of one output. */
function outputsOf(task: RunTask | undefined, only?: string): OutputArtifact[] {
  if (!task) return []
  return Object.entries(task.node.outputs.artifacts ?? {})
    .filter(([key]) => only === undefined || key === only)
    .flatMap(([key, { artifacts }]) =>
      artifacts.map((artifact, at) => ({ task, path: `${pathOf(task)}.${key}`, key, at, artifact })),
    )
}

function Artifacts({ run, outputs }: { run: string; outputs: OutputArtifact[] }) {
  const w = useTexts(pipelineTexts)
  if (!outputs.length) return <p className="p-4 text-[13px] text-muted-foreground">{w("notWritten")}</p>
  return (
    <ul className="flex flex-col divide-y">
      {outputs.map((output) => (
        <li key={`${output.key}[${output.at}]`} className="px-4 py-3">
          <ArtifactView run={run} output={output} />
        </li>
      ))}
    </ul>
  )
}

/** The tasks that wrote an artifact and those that read it, also in other runs. */
function Lineage({ run, tasks, artifact }: { run: string; tasks: readonly RunTask[]; artifact?: OutputArtifact }) {
  const w = useTexts(pipelineTexts)
  const uri = artifact?.artifact.uri ?? ""
  const uses = useQuery({ ...artifactUsesQuery(uri), enabled: Boolean(uri) }).data ?? []
  const names = new Map(tasks.map((task) => [task.task_id, pathOf(task)]))
  if (!uses.length) return null
  return (
    <Block title={w("lineage")}>
      <ul className="flex flex-col gap-1 text-[13px]">
        {uses.map((use) => (
          <li key={`${use.run_id} ${use.task_id} ${use.direction} ${use.key}`} className="break-all">
            <span className="text-muted-foreground">{w(use.direction === "output" ? "writtenBy" : "readBy")}</span>{" "}
            {use.run_id === run ? (
              <>
                {names.get(use.task_id) ?? use.task_id}, {w("thisRun")}
              </>
            ) : (
              <Link to="/pipelines/runs/$run" params={{ run: use.run_id }} className="text-primary hover:underline">
                {w("otherRun", { id: use.run_id.slice(0, 8) })}
              </Link>
            )}
          </li>
        ))}
      </ul>
    </Block>
  )
}

function Block({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="flex flex-col gap-1.5 border-b px-4 py-3 last:border-0">
      <h3 className="text-[13px] font-semibold">{title}</h3>
      {children}
    </section>
  )
}

function InputsOutputs({ run, task }: { run: string; task: RunTask }) {
  const w = useTexts(pipelineTexts)
  const outputs = outputsOf(task)
  return (
    <>
      <Block title={w("inputs")}>
        <Parameters label={w("inputs")} values={task.node.inputs} hasArtifacts={hasArtifacts(task.node.inputs)} />
        {Object.entries(task.node.inputs.artifacts ?? {}).flatMap(([key, { artifacts }]) =>
          artifacts.map((artifact, at) => (
            <div key={`${key}[${at}]`} className="text-[13px]">
              <p>
                <code className="font-mono font-medium">{key}</code>
                <span className="ml-2 text-muted-foreground">{shortType(typeOf(artifact))}</span>
              </p>
              <p className="font-mono text-xs break-all text-muted-foreground">{artifact.uri}</p>
            </div>
          )),
        )}
      </Block>
      <Block title={w("outputs")}>
        <Parameters label={w("outputs")} values={task.node.outputs} hasArtifacts={outputs.length > 0} />
        {outputs.map((output) => (
          <ArtifactView key={`${output.key}[${output.at}]`} run={run} output={output} />
        ))}
      </Block>
    </>
  )
}

function hasArtifacts(values: TaskValues): boolean {
  return Object.keys(values.artifacts ?? {}).length > 0
}

function Parameters({ label, values, hasArtifacts }: { label: string; values: TaskValues; hasArtifacts: boolean }) {
  const c = useTexts(commonTexts)
  if (Object.keys(values.parameterValues ?? {}).length) return <Values label={label} values={values.parameterValues} />
  return hasArtifacts ? null : <p className="text-[13px] text-muted-foreground">{c("none")}</p>
}

function Details({ id, task, tasks }: { id: string; task: RunTask; tasks: readonly RunTask[] }) {
  const w = useTexts(pipelineTexts)
  const navigate = route.useNavigate()
  const open = (iteration: number | null) =>
    void navigate({ search: (before) => ({ ...before, node: `${id}/(${iteration})` }), replace: true })
  const inside = task.node.kind === "loop" ? tasks.filter((each) => each.parent_task_id === task.task_id) : []
  return (
    <>
      <Block title={w("started")}>
        <p className="text-[13px]">
          <Time at={task.start_time} />
        </p>
      </Block>
      <Block title={w("component")}>
        <code className="font-mono text-[13px] break-all">{task.node.component || "–"}</code>
      </Block>
      {task.node.attempts.length > 0 && (
        <Block title={w("pods")}>
          {task.node.attempts.map((pod, index) => (
            <p key={pod} className="text-[13px]">
              {w("attempt", { n: index + 1 })}: <code className="font-mono break-all">{pod}</code>
            </p>
          ))}
        </Block>
      )}
      {inside.length > 0 && (
        <Block title={w("iterations", { n: inside.length })}>
          <ul className="flex flex-col gap-1">
            {inside.toSorted(failedFirst).map((each) => (
              <li key={each.task_id} className="flex flex-wrap items-center gap-2 text-[13px]">
                <Button
                  look="link"
                  size="link"
                  className="w-12 justify-start"
                  onClick={() => open(each.node.iteration)}
                >
                  #{each.node.iteration}
                </Button>
                <RunStateBadge state={each.state} />
                {each.error && <span className="break-words text-muted-foreground">{each.error.message}</span>}
              </li>
            ))}
          </ul>
        </Block>
      )}
    </>
  )
}

function failedFirst(a: RunTask, b: RunTask): number {
  return Number(b.state === "FAILED") - Number(a.state === "FAILED")
}

function Logs({ run, task }: { run: PipelineRun; task: RunTask }) {
  const w = useTexts(pipelineTexts)
  const { attempts } = task.node
  const retries = run.retries ?? 0
  const [chosen, setChosen] = useState(0)
  const [round, setRound] = useState<number>()
  const attempt = chosen || attempts.length
  if (!attempts.length) return <p className="p-4 text-[13px] text-muted-foreground">{w("noLog")}</p>
  const over = isOver(task.state) || attempt < attempts.length || round !== undefined
  const address = logAddress(run.run_id, task.task_id, attempt, round)
  return (
    <div className="flex h-full min-h-0 flex-col">
      {(attempts.length > 1 || retries > 0) && (
        <div className="flex flex-wrap gap-2 border-b p-2">
          {retries > 0 && (
            <Select
              aria-label={w("rounds")}
              className="h-8 w-auto"
              value={round ?? retries}
              onChange={(event) => {
                const value = Number(event.target.value)
                setRound(value === retries ? undefined : value)
              }}
            >
              {Array.from({ length: retries + 1 }, (_, index) => (
                <option key={index} value={index}>
                  {index === retries ? w("lastRound") : w("round", { n: index + 1 })}
                </option>
              ))}
            </Select>
          )}
          <Select
            aria-label={w("attempts")}
            className="h-8 w-auto"
            value={attempt}
            onChange={(event) => setChosen(Number(event.target.value))}
          >
            {attempts.map((pod, index) => (
              <option key={pod} value={index + 1}>
                {w("attempt", { n: index + 1 })}
              </option>
            ))}
          </Select>
        </div>
      )}
      <div className="min-h-0 flex-1">
        {over ? (
          <LogView
            key={address}
            source={{ text: address, events: address, name: `${task.display_name}-${attempt}.log` }}
            over
          />
        ) : (
          <LiveLog address={address} />
        )}
      </div>
    </div>
  )
}

/** The last lines of a log that is still written. */
function LiveLog({ address }: { address: string }) {
  const w = useTexts(pipelineTexts)
  const found = useQuery(logQuery(address))
  const lines = (found.data ?? "").split("\n").slice(-TAIL_LINES).join("\n")
  if (failure(found))
    return (
      <div className="p-4">
        <ProblemView error={found.error} />
      </div>
    )
  return (
    <pre
      ref={(element) => {
        if (element) element.scrollTop = element.scrollHeight
      }}
      tabIndex={0}
      role="log"
      aria-label={w("logs")}
      className="h-full overflow-auto bg-background p-3 font-mono text-xs leading-5 break-all whitespace-pre-wrap"
    >
      {lines}
    </pre>
  )
}
