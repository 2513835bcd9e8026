/** The panel of one node of a run. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { Download } from "lucide-react"
import { lazy, type ReactNode, Suspense, useState } from "react"
import type { Schema } from "@/api/client"
import { runLog } from "@/api/log"
import { failure } from "@/api/problem"
import {
  outputAddress,
  type RunDetail,
  type RunNodeDetail,
  runNodeEventsQuery,
  runNodePodsQuery,
  runNodeQuery,
} from "@/api/runs"
import { usePreferences } from "@/app/preferences"
import { PreviewButton } from "@/components/artifact-preview"
import { Badge, StateBadge } from "@/components/badge"
import { EventList } from "@/components/event-list"
import { Loading, ProblemView } from "@/components/feedback"
import { Select } from "@/components/form"
import { LogView } from "@/components/log-view"
import { Tabs } from "@/components/tabs"
import { TerminalButton } from "@/components/terminal-button"
import { Duration } from "@/components/time"
import { OPERATOR_SIGNS } from "@/graph/control-flow"
import type { GraphDocument } from "@/graph/document"
import { iterationsOf } from "@/graph/loop-graph"
import { NODE_FIELDS, SECTIONS } from "@/graph/node-fields"
import { commonTexts } from "@/i18n/common"
import { metricTexts } from "@/i18n/metrics"
import { runTexts } from "@/i18n/runs"
import { statusMessage } from "@/i18n/server-messages"
import { useTexts, useTranslate } from "@/i18n/translate"
import { skuText } from "@/lib/amounts"

const route = getRouteApi("/shell/runs/$run")
const MetricsPanel = lazy(() =>
  import("@/components/metrics-panel").then(({ MetricsPanel }) => ({ default: MetricsPanel })),
)
const PodUsagePanel = lazy(() =>
  import("@/components/pod-usage").then(({ PodUsagePanel }) => ({ default: PodUsagePanel })),
)
type PodSummary = Schema<"PodSummary">
type KubernetesEvent = Schema<"KubernetesEvent">

export const OVER = new Set(["succeeded", "failed", "stopped", "skipped"])

export function NodePanel({
  run,
  node: name,
  select,
}: {
  run: RunDetail
  node: string
  select: (node: string) => void
}) {
  const language = usePreferences((all) => all.language)
  const w = useTexts(runTexts)
  const m = useTexts(metricTexts)
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(runNodeQuery(run.id, name))
  if (failure(found))
    return (
      <div className="p-4">
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </div>
    )
  if (!found.data) return <Loading />
  const node = found.data
  const io = { id: "io", label: w("inputsOutputs"), content: <InputsOutputs run={run.id} node={node} /> }
  const details = { id: "details", label: w("details"), content: <Details node={node} /> }
  const names = run.node_states.map((each) => each.name)
  const inside = new Set(iterationsOf(name, names))
  const loops = (run.document as unknown as GraphDocument).nodes?.some((each) => each.name === name && each.loop)
  const iterations = {
    id: "iterations",
    label: w("iterations"),
    content: <Iterations nodes={run.node_states.filter((each) => inside.has(each.name))} loop={name} select={select} />,
  }
  const single = [
    io,
    details,
    { id: "log", label: w("logs"), content: <Logs run={run.id} node={node} /> },
    {
      id: "metrics",
      label: m("metrics"),
      content: (
        <Suspense fallback={<Loading />}>
          <MetricsPanel of={{ run: run.id, node: name }} narrow />
        </Suspense>
      ),
    },
    { id: "containers", label: w("containers"), content: <Containers run={run} node={name} /> },
    {
      id: "usage",
      label: m("usage"),
      content: (
        <div className="p-4">
          <Suspense fallback={<Loading />}>
            <PodUsagePanel of={{ run: run.id, node: name }} goes={!OVER.has(node.state)} />
          </Suspense>
        </div>
      ),
    },
    { id: "events", label: w("events"), content: <Events run={run.id} node={name} /> },
  ]
  const tabs = loops ? [iterations, io, details] : single
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex items-center gap-2 px-4 py-2.5">
        <h2 className="truncate">{name}</h2>
        <StateBadge state={node.state} />
        <span className="ml-auto text-[13px] text-muted-foreground">
          <Duration started={node.started} finished={node.finished} />
        </span>
      </div>
      {node.message && node.state !== "succeeded" && (
        <p className="px-4 pb-2 text-[13px] break-words text-muted-foreground">{statusMessage(node, language)}</p>
      )}
      <Tabs
        className="flex-1"
        tabs={tabs}
        value={tabs.some((each) => each.id === tab) ? tab : tabs[0]?.id}
        onChange={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
        inside="overflow-y-auto"
      />
    </div>
  )
}

export function Block({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="flex flex-col gap-1.5 border-b px-4 py-3 last:border-0">
      <h3 className="text-[13px] font-semibold">{title}</h3>
      {children}
    </section>
  )
}

export function None({ text }: { text?: string }) {
  const w = useTexts(runTexts)
  return <p className="text-[13px] text-muted-foreground">{text ?? w("none")}</p>
}

export function Value({ children }: { children: ReactNode }) {
  return (
    <pre className="max-h-48 overflow-auto rounded bg-muted px-2 py-1 font-mono text-xs break-all whitespace-pre-wrap">
      {children}
    </pre>
  )
}

/** The iterations of a loop; each opens its own panel. */
function Iterations({
  nodes,
  loop,
  select,
}: {
  nodes: RunDetail["node_states"]
  loop: string
  select: (node: string) => void
}) {
  const w = useTexts(runTexts)
  const language = usePreferences((all) => all.language)
  if (!nodes.length)
    return (
      <div className="p-4">
        <None text={w("noIterations")} />
      </div>
    )
  const counts = new Map<RunNodeDetail["state"], number>()
  for (const { state } of nodes) counts.set(state, (counts.get(state) ?? 0) + 1)
  return (
    <div className="flex flex-col gap-2 p-4">
      <p className="flex flex-wrap gap-x-3 text-[13px] text-muted-foreground">
        {[...counts].map(([state, n]) => (
          <span key={state}>
            {w(state)}: {n}
          </span>
        ))}
      </p>
      <ul className="flex flex-col divide-y">
        {nodes.map((each) => (
          <li key={each.name} className="flex flex-wrap items-center gap-2 py-1.5 text-[13px]">
            <button
              type="button"
              className="min-w-0 truncate text-left font-mono text-primary hover:underline"
              onClick={() => select(each.name)}
            >
              {each.name.slice(loop.length + 1, -1)}
            </button>
            <StateBadge state={each.state} />
            <span className="ml-auto text-muted-foreground">
              <Duration started={each.started} finished={each.finished} />
            </span>
            {each.message && each.state !== "succeeded" && (
              <p className="w-full break-words text-muted-foreground">{statusMessage(each, language)}</p>
            )}
          </li>
        ))}
      </ul>
    </div>
  )
}

/** What the condition compares, with the values it had. */
function ConditionBlock({ condition }: { condition: NonNullable<RunNodeDetail["condition"]> }) {
  const w = useTexts(runTexts)
  const text = useTranslate()
  const side = ({ origin, value }: { origin: string; value: string | null }) => (
    <span className="min-w-0 break-all">
      {origin && <code className="mr-1 font-mono font-medium">{origin}</code>}
      {value !== null && <code className="rounded bg-muted px-1 font-mono">{JSON.stringify(value)}</code>}
      {value === null && <span className="text-muted-foreground">{w("notReady")}</span>}
    </span>
  )
  return (
    <Block title={text(NODE_FIELDS.condition.label)}>
      {condition.comparisons.length > 1 && (
        <p className="text-[13px] text-muted-foreground">{w(condition.match === "any" ? "oneHolds" : "allHold")}</p>
      )}
      {condition.comparisons.map((each, place) => (
        <p key={place} className="flex flex-wrap items-center gap-1.5 text-[13px]">
          {side(each.left)}
          <span>{OPERATOR_SIGNS[each.operator as keyof typeof OPERATOR_SIGNS] ?? each.operator}</span>
          {side(each.right)}
          {each.holds !== null && (
            <span className="ml-auto text-muted-foreground">{w(each.holds ? "holds" : "doesNotHold")}</span>
          )}
        </p>
      ))}
    </Block>
  )
}

function InputsOutputs({ run, node }: { run: string; node: RunNodeDetail }) {
  const w = useTexts(runTexts)
  const text = useTranslate()
  const c = useTexts(commonTexts)
  // A node that has ended writes nothing more.
  const missing = w(OVER.has(node.state) ? "notWritten" : "notReady")
  return (
    <>
      {node.condition && <ConditionBlock condition={node.condition} />}
      <Block title={text(SECTIONS.inputs)}>
        {node.inputs.length === 0 && <None />}
        {node.inputs.map((input) => (
          <div key={input.name}>
            <p className="text-[13px]">
              <code className="font-mono font-medium">{input.name}</code>
              {input.origin && <span className="ml-2 text-muted-foreground">{w("from", { name: input.origin })}</span>}
            </p>
            <Value>{input.value ?? missing}</Value>
          </div>
        ))}
      </Block>
      <Block title={text(SECTIONS.outputs)}>
        {node.outputs.length === 0 && <None />}
        {node.outputs.map((output) => (
          <div key={output.name}>
            <p className="flex items-center gap-2 text-[13px]">
              <code className="font-mono font-medium">{output.name}</code>
              <span className="text-muted-foreground">{output.path}</span>
              {output.ready && output.type === "file" && (
                <span className="ml-auto">
                  <PreviewButton
                    name={output.name}
                    path={output.path}
                    address={outputAddress(run, node.name, output.name)}
                  />
                </span>
              )}
              {output.ready && (
                <a
                  href={outputAddress(run, node.name, output.name)}
                  download
                  aria-label={`${c("download")}: ${output.name}`}
                  className={output.type === "file" ? "text-primary" : "ml-auto text-primary"}
                >
                  <Download className="size-4" aria-hidden />
                </a>
              )}
            </p>
            <Value>{output.ready ? (output.value ?? output.path) : missing}</Value>
          </div>
        ))}
      </Block>
    </>
  )
}

function Details({ node }: { node: RunNodeDetail }) {
  const text = useTranslate()
  const language = usePreferences((all) => all.language)
  const w = useTexts(runTexts)
  return (
    <>
      <Block title={text(NODE_FIELDS.command.label)}>{node.command ? <Value>{node.command}</Value> : <None />}</Block>
      <Block title={text(NODE_FIELDS.image.label)}>
        <code className="font-mono text-[13px] break-all">{node.image || "–"}</code>
      </Block>
      <Block title={text(SECTIONS.resources)}>
        <p className="text-[13px]">{skuText(node.resources, language) || "–"}</p>
        {node.cluster && (
          <p className="text-[13px]">
            {w("cluster")}: {node.cluster} × {node.skus}
          </p>
        )}
        {node.timeout && (
          <p className="text-[13px]">
            {text(NODE_FIELDS.timeout.label)}: {node.timeout}
          </p>
        )}
      </Block>
      <Block title={w("attempts")}>
        {node.attempt_list.length === 0 && <None />}
        {node.attempt_list.map((attempt) => (
          <div key={attempt.number} className="flex flex-wrap items-center gap-2 text-[13px]">
            <span className="font-medium">{w("attempt", { n: attempt.number })}</span>
            <StateBadge state={attempt.state} />
            {attempt.exit_code && <span>{w("exitCode", { code: attempt.exit_code })}</span>}
            {attempt.host && <span className="text-muted-foreground">{attempt.host}</span>}
            <span className="ml-auto text-muted-foreground">
              <Duration started={attempt.started} finished={attempt.finished} />
            </span>
            {attempt.message && (
              <p className="w-full break-words text-muted-foreground">{statusMessage(attempt, language)}</p>
            )}
          </div>
        ))}
      </Block>
      <Block title={text(NODE_FIELDS.env.label)}>
        {node.env.length === 0 && <None />}
        {node.env.map((variable) => (
          <p key={variable.name} className="font-mono text-xs break-all">
            {variable.name}={variable.secret ? "••••••" : variable.value}
          </p>
        ))}
      </Block>
      <Block title={text(NODE_FIELDS.storage.label)}>
        {node.mounts.length === 0 && <None />}
        {node.mounts.map((mount) => (
          <p key={mount.path} className="text-[13px]">
            {mount.name} → <code className="font-mono">{mount.path}</code>
          </p>
        ))}
      </Block>
    </>
  )
}

function Logs({ run, node }: { run: string; node: RunNodeDetail }) {
  const w = useTexts(runTexts)
  const [chosen, setChosen] = useState(0)
  const [pod, setPod] = useState("")
  const training = node.kind === "training"
  const pods = useQuery({ ...runNodePodsQuery(run, node.name), enabled: training })
  const attempt = node.attempt_list.find((each) => each.number === chosen) ?? node.attempt_list.at(-1)
  const over = OVER.has(attempt?.state ?? node.state)
  return (
    <div className="flex h-full min-h-0 flex-col">
      {(node.attempt_list.length > 1 || training) && (
        <div className="flex gap-2 border-b p-2">
          {node.attempt_list.length > 1 && (
            <Select
              aria-label={w("attempts")}
              className="h-8 w-auto"
              value={attempt?.number ?? 0}
              onChange={(event) => setChosen(Number(event.target.value))}
            >
              {node.attempt_list.map((each) => (
                <option key={each.number} value={each.number}>
                  {w("attempt", { n: each.number })} · {w(each.state)}
                </option>
              ))}
            </Select>
          )}
          {training && (pods.data?.length ?? 0) > 0 && (
            <Select
              aria-label={w("pod")}
              className="h-8 w-auto"
              value={pod}
              onChange={(event) => setPod(event.target.value)}
            >
              <option value="">{w("pod")}</option>
              {pods.data?.map((each) => (
                <option key={each.name}>{each.name}</option>
              ))}
            </Select>
          )}
        </div>
      )}
      <div className="min-h-0 flex-1">
        <LogView
          key={attempt?.number}
          source={runLog({ run, node: node.name, ...(chosen && attempt ? { attempt: attempt.number } : {}), pod })}
          over={over}
        />
      </div>
    </div>
  )
}

const POD_PHASES: Record<string, keyof typeof runTexts> = {
  Pending: "waiting",
  Running: "running",
  Succeeded: "succeeded",
  Failed: "failed",
}

const CONTAINER_STATES: Record<string, keyof typeof runTexts> = {
  waiting: "waiting",
  running: "running",
  terminated: "terminated",
}

function Containers({ run, node }: { run: RunDetail; node: string }) {
  return <PodList pods={useQuery(runNodePodsQuery(run.id, node))} namespace={run.namespace} />
}

/** Pods with their containers, and a terminal in those that run. */
export function PodList({ pods, namespace }: { pods: UseQueryResult<PodSummary[]>; namespace: string }) {
  const w = useTexts(runTexts)
  if (failure(pods))
    return (
      <div className="p-4">
        <ProblemView error={pods.error} />
      </div>
    )
  if (!pods.data) return <Loading />
  if (!pods.data.length)
    return (
      <div className="p-4">
        <None text={w("noContainers")} />
      </div>
    )
  return pods.data.map((pod) => (
    <Block key={pod.name} title={pod.name}>
      <p className="text-[13px] text-muted-foreground">
        {w(POD_PHASES[pod.phase] ?? "unknown")} · {pod.host || "–"} · {pod.address || "–"}
      </p>
      {["Running", "Failed"].includes(pod.phase) && (
        <div>
          <TerminalButton place={{ namespace, pod: pod.name }} />
          {pod.phase === "Failed" && <p className="text-xs text-muted-foreground">{w("terminalOfFailed")}</p>}
        </div>
      )}
      {pod.message && <p className="text-[13px]">{pod.message}</p>}
      {pod.containers.map((container) => (
        <div key={container.name} className="rounded border p-2 text-[13px]">
          <p className="flex flex-wrap items-center gap-2">
            <span className="font-medium">{container.name}</span>
            <Badge>{w(CONTAINER_STATES[container.state] ?? "unknown")}</Badge>
            {container.exit_code !== null && <span>{w("exitCode", { code: container.exit_code })}</span>}
            {container.restarts > 0 && <span>{w("restarts", { n: container.restarts })}</span>}
          </p>
          <p className="font-mono text-xs break-all text-muted-foreground">{container.image}</p>
          {container.message && <p className="break-words">{container.message}</p>}
        </div>
      ))}
    </Block>
  ))
}

function Events({ run, node }: { run: string; node: string }) {
  return <PodEvents events={useQuery(runNodeEventsQuery(run, node))} />
}

export function PodEvents({ events }: { events: UseQueryResult<KubernetesEvent[]> }) {
  if (events.data && events.data.length > 0) return <EventList events={events.data} className="divide-y" />
  return <div className="p-4">{events.data ? <EventList events={[]} /> : <Pending error={events.error} />}</div>
}

function Pending({ error }: { error: unknown }) {
  return error ? <ProblemView error={error} /> : <Loading />
}
