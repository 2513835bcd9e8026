/** The card of a node: its kind, name and state. */
import { Handle, type Node, type NodeProps, Position } from "@xyflow/react"
import {
  Boxes,
  ChevronDown,
  ChevronRight,
  CircleAlert,
  CloudDownload,
  Ellipsis,
  FileBox,
  LogOut,
  Network,
  Pause,
  Repeat,
  RotateCw,
  Split,
  Terminal,
  Timer,
  TriangleAlert,
  Workflow,
} from "lucide-react"
import { createContext, memo, useCallback, useContext, useEffect, useState } from "react"
import { pipelineTexts } from "@/i18n/pipelines"
import { taskTexts } from "@/i18n/tasks"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import type { TaskKind } from "@/lib/pipeline-spec"
import type { NodeKind } from "./document"
import { NODE_SIZE } from "./drawing"

export type NodeState = "waiting" | "running" | "succeeded" | "failed" | "stopped" | "skipped"

export interface CardData extends Record<string, unknown> {
  name: string
  kind: NodeKind | TaskKind | "retry" | "join" | "hook" | "suspend"
  subtitle: string
  errors?: number
  warnings?: number
  /** The state in a run. */
  state?: NodeState
  stateText?: string
  /** The number of retries. */
  retried?: number
  /** The change in a comparison. */
  mark?: "added" | "removed" | "changed"
  editable?: boolean
  /** A search has found it. */
  found?: boolean
  /** Whether what is inside of it is shown; undefined if nothing is. */
  opened?: boolean
  /** It runs only if this holds. */
  condition?: string
  /** It runs once for each item of this. */
  over?: string
  /** How long an attempt may run. */
  timeout?: string
}

/** Opens or closes a node that has others inside, by its id. */
export const ToggleNode = createContext<(id: string) => void>(() => {})

/** Opens and closes nodes by their ids. What is around the selected node is open. */
export function useOpened(around: readonly string[]): [ReadonlySet<string>, (id: string) => void] {
  const [opened, setOpened] = useState<ReadonlySet<string>>(() => new Set(around))
  const toggle = useCallback((id: string) => {
    setOpened((before) => {
      const after = new Set(before)
      if (!after.delete(id)) after.add(id)
      return after
    })
  }, [])
  const needed = around.join("\n")
  // biome-ignore lint/correctness/useExhaustiveDependencies: `needed` is what matters of it.
  useEffect(() => {
    setOpened((before) => (around.every((id) => before.has(id)) ? before : new Set([...before, ...around])))
  }, [needed])
  return [opened, toggle]
}

export type CardNode = Node<CardData, "card">

const DOT = { x: NODE_SIZE.width / 2 - 5, width: 10, height: 10 }

/** The size and handles of every card, given in advance so that no card has to be rendered to be measured. */
export const CARD_SHAPE = {
  ...NODE_SIZE,
  handles: [
    { type: "target" as const, position: Position.Top, y: -5, ...DOT },
    { type: "source" as const, position: Position.Bottom, y: NODE_SIZE.height - 5, ...DOT },
  ],
}

/** Whether a card looks the same with both. */
export function sameData(a: CardData, b: CardData): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}

const ICONS: Record<CardData["kind"], typeof Boxes> = {
  plain: Terminal,
  module: Boxes,
  training: Network,
  task: Terminal,
  pipeline: Workflow,
  loop: Repeat,
  importer: CloudDownload,
  artifact: FileBox,
  more: Ellipsis,
  retry: RotateCw,
  join: Ellipsis,
  hook: LogOut,
  suspend: Pause,
}

const BARS: Record<NodeState, string> = {
  waiting: "bg-waiting",
  running: "bg-fill-running animate-pulse",
  succeeded: "bg-fill-succeeded",
  failed: "bg-fill-failed",
  stopped: "bg-waiting",
  skipped: "bg-waiting/50",
}

const BORDERS: Record<NodeState, string> = {
  waiting: "border-waiting/60",
  running: "border-fill-running",
  succeeded: "border-fill-succeeded",
  failed: "border-fill-failed",
  stopped: "border-waiting",
  skipped: "border-waiting/50 border-dashed",
}

const MARKS = {
  added: "border-succeeded bg-succeeded/8",
  removed: "border-failed bg-failed/8",
  changed: "border-warning bg-warning/8",
}

export const NodeCard = memo(function NodeCard({ id, data, selected }: NodeProps<CardNode>) {
  const w = useTexts(taskTexts)
  if (data.kind === "join") return <Join />
  const Icon = ICONS[data.kind]
  const dot = classes(
    "size-2.5! border-2! border-card! bg-muted-foreground!",
    data.editable ? "after:absolute after:-inset-2.5 after:content-['']" : "opacity-0",
  )
  return (
    <div
      data-state={data.state}
      className={classes(
        "relative flex h-[60px] w-[232px] items-center gap-2.5 overflow-visible rounded-lg border bg-card pr-2 pl-3 text-left shadow-xs",
        data.state && BORDERS[data.state],
        data.kind === "artifact" && "rounded-full border-dashed pl-4",
        data.mark && MARKS[data.mark],
        data.errors ? "border-destructive" : "",
        data.found && "ring-2 ring-warning",
        selected && "ring-2 ring-ring",
      )}
    >
      <Handle type="target" position={Position.Top} isConnectable={data.editable} className={dot} />
      {data.state && data.kind !== "artifact" && (
        <span aria-hidden className={classes("absolute inset-y-0 left-0 w-1.5 rounded-l-lg", BARS[data.state])} />
      )}
      <span className="flex size-8 shrink-0 items-center justify-center rounded-md bg-muted text-muted-foreground">
        <Icon className="size-4" aria-hidden />
      </span>
      <span className="min-w-0 flex-1">
        <span className="block truncate font-medium" title={data.name}>
          {data.name || "…"}
          {data.retried ? <span className="ml-1 text-muted-foreground">({data.retried})</span> : null}
        </span>
        <span className="block truncate text-xs text-muted-foreground">{data.stateText ?? data.subtitle}</span>
      </span>
      {data.over && <Badge icon={Repeat} label={w("loopOver", { over: shortened(data.over) })} />}
      {data.condition && <Badge icon={Split} label={w("onlyIf", { condition: shortened(data.condition) })} />}
      {data.timeout && <Badge icon={Timer} label={w("timeout", { time: data.timeout })} />}
      {data.opened !== undefined && <Opener id={id} name={data.name} opened={data.opened} />}
      {data.errors ? (
        <CircleAlert className="size-4 shrink-0 text-destructive" aria-hidden />
      ) : data.warnings ? (
        <TriangleAlert className="size-4 shrink-0 text-warning" aria-hidden />
      ) : null}
      <Handle type="source" position={Position.Bottom} isConnectable={data.editable} className={dot} />
    </div>
  )
})

/** Where groups of parallel steps meet. */
function Join() {
  return (
    <div aria-hidden className="relative flex h-[60px] w-[232px] items-center justify-center">
      <Handle type="target" position={Position.Top} className="opacity-0" />
      <span className="absolute inset-y-0 w-0.5 bg-(--edge)" />
      <span className="relative size-3 rounded-full bg-(--edge)" />
      <Handle type="source" position={Position.Bottom} className="opacity-0" />
    </div>
  )
}

const LONGEST_LABEL = 200

function shortened(text: string): string {
  return text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL)}…` : text
}

function Badge({ icon: Icon, label }: { icon: typeof Split; label: string }) {
  return (
    <span role="img" aria-label={label} title={label} className="-ml-1 shrink-0 text-muted-foreground">
      <Icon aria-hidden className="size-4" />
    </span>
  )
}

function Opener({ id, name, opened }: { id: string; name: string; opened: boolean }) {
  const w = useTexts(pipelineTexts)
  const toggle = useContext(ToggleNode)
  const label = w(opened ? "closeNode" : "openNode", { name })
  const Icon = opened ? ChevronDown : ChevronRight
  return (
    <button
      type="button"
      className="nodrag nopan flex size-7 shrink-0 items-center justify-center rounded-md border bg-muted hover:bg-accent"
      aria-label={label}
      aria-expanded={opened}
      title={label}
      onClick={(event) => {
        event.stopPropagation()
        toggle(id)
      }}
    >
      <Icon aria-hidden className="size-4" />
    </button>
  )
}

export const NODE_TYPES = { card: NodeCard }
