/** What several pages of pipelines show: navigation, states, uploads, and the graph. */
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { lazy, type ReactNode, Suspense, useCallback, useMemo, useState } from "react"
import { useMe } from "@/api/client"
import { teamsQuery } from "@/api/options"
import { isOver, type RunState, type RunTask } from "@/api/pipelines"
import { StateBadge } from "@/components/badge"
import { FormDialog, text } from "@/components/dialog"
import { Loading } from "@/components/feedback"
import { Field, Input, Select, TextArea, Tick } from "@/components/form"
import type { GraphDocument } from "@/graph/document"
import { type CardData, type NodeState, ToggleNode, useOpened } from "@/graph/node-card"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { type Translate, useTexts } from "@/i18n/translate"
import { shortType } from "@/lib/pipeline-artifacts"
import { type GraphTask, type PipelineSpec, type TaskKind, taskGraph } from "@/lib/pipeline-spec"

const GraphView = lazy(() => import("@/graph/graph-view").then(({ GraphView }) => ({ default: GraphView })))

export type PipelineWord = keyof typeof pipelineTexts

const SECTIONS = [
  { to: "/pipelines", word: "pipelines" },
  { to: "/pipelines/experiments", word: "experiments" },
  { to: "/pipelines/runs", word: "runs" },
  { to: "/pipelines/recurring", word: "recurringRuns" },
] as const

/** The lists that belong to pipelines, above each of them. */
export function PipelinesNavigation() {
  const w = useTexts(pipelineTexts)
  return (
    <nav aria-label={w("sections")} className="flex gap-1 overflow-x-auto border-b">
      {SECTIONS.map(({ to, word }) => (
        <Link
          key={to}
          to={to}
          activeOptions={{ exact: true, includeSearch: false }}
          className="-mb-px border-b-2 border-transparent px-3 py-2 text-[13px] font-medium whitespace-nowrap text-muted-foreground hover:text-foreground"
          activeProps={{ className: "border-primary! text-foreground!", "aria-current": "page" }}
        >
          {w(word)}
        </Link>
      ))}
    </nav>
  )
}

/** The way back from a page to its list. */
export function Above({ to, word }: { to: (typeof SECTIONS)[number]["to"]; word: PipelineWord }) {
  const w = useTexts(pipelineTexts)
  return (
    <Link to={to} className="hover:underline">
      {w(word)}
    </Link>
  )
}

const LOOKS: Record<RunState, NodeState | "stopping"> = {
  PENDING: "waiting",
  RUNNING: "running",
  SUCCEEDED: "succeeded",
  FAILED: "failed",
  CANCELING: "stopping",
  CANCELED: "stopped",
  SKIPPED: "skipped",
  PAUSED: "waiting",
}

export function RunStateBadge({ state }: { state: RunState }) {
  return <StateBadge state={LOOKS[state] ?? "waiting"} />
}

/** Whom something new is shared with: nobody, or one of the user's teams. Hidden from users without a team. */
export function NamespaceField({ value, onChange }: { value?: string; onChange?: (namespace: string) => void }) {
  const w = useTexts(pipelineTexts)
  const mine = Object.keys(useMe().teams)
  const teams = useQuery({ ...teamsQuery, enabled: mine.length > 0 })
  if (mine.length === 0) return null
  return (
    <Field label={w("namespace")}>
      {(field) => (
        <Select {...field} name="namespace" value={value} onChange={(event) => onChange?.(event.target.value)}>
          <option value="">{w("onlyMe")}</option>
          {teams.data?.items
            .filter((team) => mine.includes(team.id))
            .map((team) => (
              <option key={team.id} value={`team-${team.name}`}>
                {team.name}
              </option>
            ))}
        </Select>
      )}
    </Field>
  )
}

interface UploadProps {
  title: string
  close: () => void
  send: (sent: { file: File; name: string; description: string; namespace: string }) => Promise<unknown>
  /** A version belongs to those who have the pipeline. */
  isVersion?: boolean
}

/** Uploads a compiled pipeline. */
export function UploadDialog({ title, close, send, isVersion }: UploadProps) {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  return (
    <FormDialog
      title={title}
      lead={w("uploadLead")}
      action={w("uploadAction")}
      fields={[]}
      onClose={close}
      onSubmit={(form) =>
        send({
          file: form.get("file") as File,
          name: text(form, "name"),
          description: text(form, "description"),
          namespace: text(form, "namespace"),
        })
      }
    >
      {() => (
        <>
          <Field label={c("file")}>
            {(field) => (
              <Input
                {...field}
                type="file"
                name="file"
                required
                accept=".yaml,.yml,.json,.zip,.tar.gz,.tgz"
                className="py-1.5"
              />
            )}
          </Field>
          <Field label={c("name")} hint={w("nameHint")} optional>
            {(field) => <Input {...field} name="name" autoComplete="off" />}
          </Field>
          <Field label={c("description")} optional>
            {(field) => <TextArea {...field} name="description" rows={2} />}
          </Field>
          {!isVersion && <NamespaceField />}
        </>
      )}
    </FormDialog>
  )
}

const KIND_WORDS: Record<TaskKind, PipelineWord> = {
  task: "task",
  pipeline: "pipelineNode",
  loop: "loop",
  importer: "importer",
  artifact: "artifact",
  more: "more",
}

interface GraphProps {
  spec: PipelineSpec | undefined
  /** The tasks of a run, and whether it has ended. Undefined for a pipeline. */
  run?: { tasks: readonly RunTask[]; over: boolean }
  selected?: string
  select?: (node: GraphTask | undefined) => void
}

/** The graph of a pipeline or a run. Loops and nested pipelines are opened in place. */
export function PipelineGraph({ spec, run, selected, select }: GraphProps) {
  const w = useTexts(pipelineTexts)
  const [opened, toggle] = useOpened(around(selected))
  const [withArtifacts, setArtifacts] = useState(true)
  const tasks = run?.tasks
  const graph = useMemo(
    () => taskGraph(spec, { opened, selected, withArtifacts, tasks }),
    [spec, opened, selected, withArtifacts, tasks],
  )
  const byId = useMemo(() => new Map(graph.nodes.map((node) => [node.id, node])), [graph])
  const children = useMemo(() => countChildren(tasks ?? []), [tasks])
  const shape = JSON.stringify([graph.nodes.map((node) => node.id), graph.edges])
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` is all that the layout depends on.
  const document = useMemo(
    (): GraphDocument => ({ format: 1, nodes: graph.nodes.map(({ id }) => ({ name: id })), edges: graph.edges }),
    [shape],
  )
  const over = run?.over
  const extra = useCallback(
    (id: string): Partial<CardData> => {
      const node = byId.get(id)
      if (!node) return {}
      const inside = node.kind === "loop" && node.task ? children.get(node.task.task_id) : undefined
      return {
        name: node.name,
        kind: node.kind,
        opened: node.opened,
        subtitle: subtitle(node, w),
        ...(over === undefined ? {} : stateOf(node, over, inside, w)),
      }
    },
    [byId, over, children, w],
  )
  return (
    <section
      aria-label={w("graph")}
      className="relative h-[calc(100vh-16.5rem)] min-h-96 overflow-hidden rounded-lg border bg-card"
    >
      <ToggleNode value={toggle}>
        <Suspense fallback={<Loading className="h-full" />}>
          <GraphView
            document={document}
            selected={selected}
            onSelect={(id) => select?.(id === undefined ? undefined : byId.get(id))}
            extra={extra}
            arranged
          />
        </Suspense>
      </ToggleNode>
      <div className="absolute top-2 left-2 z-10 rounded-md border bg-card px-2 py-1 text-[13px]">
        <Tick label={w("artifacts")} checked={withArtifacts} onChange={(event) => setArtifacts(event.target.checked)} />
      </div>
    </section>
  )
}

/** What has to be open so that a node is visible: `a/(1)/b` is in `a` and `a/(1)`. */
function around(id: string | undefined): string[] {
  const parts = (id ?? "").split("#")[0]?.split("/") ?? []
  return parts.slice(0, -1).map((_, index) => parts.slice(0, index + 1).join("/"))
}

function countChildren(tasks: readonly RunTask[]): Map<string, { all: number; done: number; failed: number }> {
  const found = new Map<string, { all: number; done: number; failed: number }>()
  for (const { parent_task_id: parent = "", state } of tasks) {
    const count = found.get(parent) ?? { all: 0, done: 0, failed: 0 }
    count.all += 1
    if (isOver(state)) count.done += 1
    if (state === "FAILED") count.failed += 1
    found.set(parent, count)
  }
  return found
}

function subtitle(node: GraphTask, w: Translate<PipelineWord>): string {
  if (node.artifact) return shortType(node.artifact.type) || w("artifact")
  return [w(KIND_WORDS[node.kind]), node.isConditional && w("conditional")].filter(Boolean).join(" · ")
}

/** The state of a card in a run. What was not started has the state of the run: it waits, or it was not run. */
function stateOf(
  node: GraphTask,
  over: boolean,
  inside: { all: number; done: number; failed: number } | undefined,
  w: Translate<PipelineWord>,
): Partial<CardData> {
  if (node.kind === "more") return {}
  const written = node.artifact && (node.task?.node.outputs.artifacts?.[node.artifact.key]?.artifacts.length ?? 0) > 0
  if (node.artifact)
    return {
      state: written ? "succeeded" : over ? "skipped" : "waiting",
      stateText: shortType(node.artifact.type) + (written || !over ? "" : ` · ${w("notWritten")}`),
    }
  if (!node.task) return { state: over ? "skipped" : "waiting", stateText: w(over ? "NOT_RUN" : "PENDING") }
  const { state } = node.task
  const retried = Math.max(0, node.task.node.attempts.length - 1)
  const parts = [
    w(state),
    node.task.node.cached && w("cached"),
    inside && w("iterationStates", { done: inside.done, n: inside.all }),
    inside && inside.failed > 0 && w("failedCount", { n: inside.failed }),
  ]
  return { state: LOOKS[state] as NodeState, stateText: parts.filter(Boolean).join(" · "), retried }
}

export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="flex flex-col gap-2">
      <h2 className="text-base font-semibold">{title}</h2>
      {children}
    </section>
  )
}
