/** Badges: a coloured word for the state of runs, nodes, modules and reviews. */

import {
  Archive,
  Ban,
  CircleCheck,
  CircleDashed,
  CirclePause,
  CircleX,
  Eye,
  Hourglass,
  LoaderCircle,
  Lock,
  SkipForward,
  TriangleAlert,
  Undo2,
} from "lucide-react"
import type { ReactNode } from "react"
import type { ReviewState } from "@/api/modules"
import { moduleTexts, reviewTexts } from "@/i18n/modules"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"

const TONES = {
  plain: "bg-muted text-muted-foreground",
  running: "bg-running/12 text-running",
  succeeded: "bg-succeeded/12 text-succeeded",
  failed: "bg-failed/12 text-failed",
  waiting: "bg-waiting/12 text-muted-foreground",
  warning: "bg-warning/12 text-warning",
  primary: "bg-accent text-primary",
} as const

export type Tone = keyof typeof TONES

export function Badge({
  tone = "plain",
  children,
  className,
}: {
  tone?: Tone
  children: ReactNode
  className?: string
}) {
  return (
    <span
      className={classes(
        "inline-flex items-center gap-1 rounded-full px-2 py-px text-xs font-medium whitespace-nowrap [&_svg]:size-3",
        TONES[tone],
        className,
      )}
    >
      {children}
    </span>
  )
}

export type RunStateName =
  | "waiting"
  | "running"
  | "suspended"
  | "succeeded"
  | "failed"
  | "stopped"
  | "skipped"
  | "stopping"

const RUN_LOOKS: Record<RunStateName, { tone: Tone; icon: typeof Ban }> = {
  waiting: { tone: "waiting", icon: CircleDashed },
  running: { tone: "running", icon: LoaderCircle },
  stopping: { tone: "waiting", icon: LoaderCircle },
  suspended: { tone: "warning", icon: CirclePause },
  succeeded: { tone: "succeeded", icon: CircleCheck },
  failed: { tone: "failed", icon: CircleX },
  stopped: { tone: "waiting", icon: Ban },
  skipped: { tone: "waiting", icon: SkipForward },
}

/** Blue: running, green: succeeded, red: failed, grey: waiting. An icon says the same. */
export function StateBadge({ state }: { state: RunStateName }) {
  const w = useTexts(runTexts)
  const { tone, icon: Icon } = RUN_LOOKS[state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden className={state === "running" || state === "stopping" ? "animate-spin" : ""} />
      {w(state)}
    </Badge>
  )
}

type Word = keyof typeof moduleTexts

export const MODULE_STATES: Record<string, { word: Word; tone: Tone }> = {
  building: { word: "building", tone: "running" },
  "build failed": { word: "buildFailed", tone: "failed" },
  private: { word: "private", tone: "waiting" },
  "in review": { word: "inReview", tone: "warning" },
  rejected: { word: "rejected", tone: "failed" },
  published: { word: "published", tone: "succeeded" },
  deprecated: { word: "deprecated", tone: "waiting" },
}

const OWNERS: ReadonlySet<string> = new Set(["private", "in review", "rejected"])

/** Whether a user may add a version to a workflow. */
export function canUse(state: string, isOwner: boolean): boolean {
  return state === "published" || (isOwner && OWNERS.has(state))
}

const MODULE_ICONS: Record<string, typeof Lock> = {
  building: LoaderCircle,
  "build failed": TriangleAlert,
  private: Lock,
  "in review": Eye,
  rejected: CircleX,
  published: CircleCheck,
  deprecated: Archive,
}

/** The state of a module version. */
export function ModuleStateBadge({ state }: { state: string }) {
  const w = useTexts(moduleTexts)
  const known = MODULE_STATES[state]
  const Icon = MODULE_ICONS[state] ?? Lock
  return (
    <Badge tone={known?.tone ?? "plain"}>
      <Icon aria-hidden className={state === "building" ? "animate-spin" : ""} />
      {w(known?.word ?? "stateUnknown")}
    </Badge>
  )
}

const REVIEW_LOOKS: Record<ReviewState, { tone: Tone; icon: typeof Undo2 }> = {
  open: { tone: "warning", icon: Hourglass },
  approved: { tone: "succeeded", icon: CircleCheck },
  rejected: { tone: "failed", icon: CircleX },
  withdrawn: { tone: "waiting", icon: Undo2 },
}

export function ReviewStateBadge({ state }: { state: ReviewState }) {
  const w = useTexts(reviewTexts)
  const { tone, icon: Icon } = REVIEW_LOOKS[state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden />
      {w(state)}
    </Badge>
  )
}
