/** The state, the place and the progress of a dispatched job at a glance. */
import {
  Ban,
  CircleCheck,
  CircleDashed,
  CircleHelp,
  CircleX,
  Cloud,
  LoaderCircle,
  RotateCw,
  Server,
} from "lucide-react"
import type { DispatchJob, DispatchState } from "@/api/dispatch"
import type { Language } from "@/app/preferences"
import { Badge, type Tone } from "@/components/badge"
import { Meter } from "@/components/meter"
import { dispatchTexts } from "@/i18n/dispatch"
import { statusMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"

const LOOKS: Record<DispatchState, { tone: Tone; icon: typeof Ban; turns?: boolean }> = {
  waiting: { tone: "waiting", icon: CircleDashed },
  restarting: { tone: "warning", icon: RotateCw },
  starting: { tone: "running", icon: LoaderCircle, turns: true },
  preparing: { tone: "running", icon: LoaderCircle, turns: true },
  running: { tone: "running", icon: LoaderCircle, turns: true },
  submitting: { tone: "running", icon: LoaderCircle, turns: true },
  stopping: { tone: "waiting", icon: LoaderCircle, turns: true },
  cancelling: { tone: "waiting", icon: LoaderCircle, turns: true },
  succeeded: { tone: "succeeded", icon: CircleCheck },
  failed: { tone: "failed", icon: CircleX },
  cancelled: { tone: "waiting", icon: Ban },
}

/** A job that is to be cancelled, but whose dispatcher has not noticed yet, is shown as being cancelled. */
export function shownState(job: Pick<DispatchJob, "state" | "cancel_requested">): DispatchState {
  const ended = job.state === "succeeded" || job.state === "failed" || job.state === "cancelled"
  return job.cancel_requested && !ended ? "cancelling" : job.state
}

/** Blue: under way, green: succeeded, red: failed, grey: waiting. An icon says the same; it turns unless it is `past`. */
export function DispatchStateBadge({ state, past }: { state: DispatchState; past?: boolean }) {
  const w = useTexts(dispatchTexts)
  const { tone, icon: Icon, turns } = LOOKS[state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden className={turns && !past ? "animate-spin" : ""} />
      {w(state)}
    </Badge>
  )
}

export function JobState({ job }: { job: Pick<DispatchJob, "state" | "cancel_requested" | "is_unclear"> }) {
  const w = useTexts(dispatchTexts)
  if (!job.is_unclear || job.cancel_requested) return <DispatchStateBadge state={shownState(job)} />
  return (
    <Badge tone="warning">
      <CircleHelp aria-hidden />
      {w("unclear")}
    </Badge>
  )
}

const PLACES: Record<string, string> = { aihc: "Baidu AIHC", timaker: "timaker" }

/** The adapter in words: the product's name, or this cluster. */
export function placeName(adapter: string, thisCluster: string): string {
  return adapter === "cluster" || adapter === "local" ? thisCluster : (PLACES[adapter] ?? adapter)
}

export function Place({ job }: { job: Pick<DispatchJob, "adapter" | "hosts"> }) {
  const w = useTexts(dispatchTexts)
  const Icon = job.adapter in PLACES ? Cloud : Server
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap" title={job.hosts.join(", ") || undefined}>
      <Icon aria-hidden className="size-4 text-muted-foreground" />
      {placeName(job.adapter, w("thisCluster"))}
    </span>
  )
}

/** Why a job is in its state, in the user's language. */
export function reasonOf(told: Pick<DispatchJob, "reason" | "reason_parts">, language: Language): string {
  return statusMessage({ message: told.reason, message_parts: told.reason_parts }, language)
}

export function kindName(kind: string, container: string): string {
  return kind === "container" ? container : kind
}

export function percent(progress: number): string {
  return `${Math.round(Math.min(1, Math.max(0, progress)) * 100)}%`
}

export function Progress({ job }: { job: Pick<DispatchJob, "name" | "progress" | "message"> }) {
  const w = useTexts(dispatchTexts)
  if (job.progress === null) return <span className="text-muted-foreground">–</span>
  return (
    <div className="min-w-24" title={job.message || undefined}>
      <p className="text-[13px] tabular-nums">{percent(job.progress)}</p>
      <Meter
        label={w("progressOf", { name: job.name })}
        value={job.progress}
        max={1}
        text={percent(job.progress)}
        full="running"
      />
    </div>
  )
}
