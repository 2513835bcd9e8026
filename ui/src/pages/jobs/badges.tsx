/** The state, the kind and the replicas of a job at a glance. */
import { CircleCheck, CircleDashed, CircleX, Eraser, LoaderCircle, PauseCircle, RotateCw, Trash2 } from "lucide-react"
import type { Job, JobMember } from "@/api/jobs"
import { Badge, type Tone } from "@/components/badge"
import { commonTexts } from "@/i18n/common"
import { jobTexts } from "@/i18n/jobs"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"

type State = Job["state"] | JobMember["state"] | "deleting"

const STATE_LOOKS: Record<State, { tone: Tone; icon: typeof CircleX; turns?: boolean }> = {
  waiting: { tone: "waiting", icon: CircleDashed },
  running: { tone: "running", icon: LoaderCircle, turns: true },
  restarting: { tone: "warning", icon: RotateCw, turns: true },
  suspended: { tone: "warning", icon: PauseCircle },
  succeeded: { tone: "succeeded", icon: CircleCheck },
  failed: { tone: "failed", icon: CircleX },
  deleting: { tone: "waiting", icon: Trash2 },
  gone: { tone: "waiting", icon: Eraser },
}

/** Blue: running, green: succeeded, red: failed, grey: waiting. An icon says the same. */
export function JobStateBadge({ state }: { state: State }) {
  const w = useTexts(jobTexts)
  const { tone, icon: Icon, turns } = STATE_LOOKS[state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden className={turns ? "animate-spin" : ""} />
      {w(state)}
    </Badge>
  )
}

export function JobState({ job }: { job: Pick<Job, "state" | "deleting"> }) {
  return <JobStateBadge state={job.deleting ? "deleting" : job.state} />
}

export interface KindLook {
  /** Two letters on a coloured background. */
  letters: string
  className: string
}

const KIND_LOOKS: [begins: string, look: KindLook][] = [
  ["pytorchjob", { letters: "Pt", className: "bg-orange-200 text-orange-950 dark:bg-orange-900 dark:text-orange-100" }],
  ["tfjob", { letters: "Tf", className: "bg-amber-200 text-amber-950 dark:bg-amber-900 dark:text-amber-100" }],
  ["tensorflowjob", { letters: "Tf", className: "bg-amber-200 text-amber-950 dark:bg-amber-900 dark:text-amber-100" }],
  ["xgboostjob", { letters: "Xg", className: "bg-teal-200 text-teal-950 dark:bg-teal-900 dark:text-teal-100" }],
  ["mpijob", { letters: "Mp", className: "bg-slate-300 text-slate-950 dark:bg-slate-700 dark:text-slate-100" }],
  ["paddlejob", { letters: "Pd", className: "bg-sky-200 text-sky-950 dark:bg-sky-900 dark:text-sky-100" }],
  ["jaxjob", { letters: "Jx", className: "bg-violet-200 text-violet-950 dark:bg-violet-900 dark:text-violet-100" }],
]

export function kindLook(word: string): KindLook {
  const found = KIND_LOOKS.find(([begins]) => word === begins || word.startsWith(`${begins}.`))
  return found?.[1] ?? { letters: word.slice(0, 2), className: "bg-muted text-muted-foreground" }
}

/** Two kinds share a name; the one that is not Kubeflow's is followed by its group. */
export function kindTitle(kind: string, word: string): string {
  const group = word.slice(kind.length + 1)
  return group ? `${kind} (${group})` : kind
}

export function KindBadge({ kind, word }: { kind: string; word: string }) {
  const look = kindLook(word)
  return (
    <span className="inline-flex items-center gap-2 whitespace-nowrap" title={kindTitle(kind, word)}>
      <span
        aria-hidden
        className={classes(
          "grid size-6 place-items-center rounded font-mono text-[11px] font-semibold",
          look.className,
        )}
      >
        {look.letters}
      </span>
      {kind}
      {kindTitle(kind, word) !== kind && <span className="text-[13px] text-muted-foreground">PaddleCloud</span>}
    </span>
  )
}

const PARTS = [
  ["succeeded", "bg-fill-succeeded"],
  ["running", "bg-fill-running"],
  ["failed", "bg-fill-failed"],
] as const

/** The number of replicas and their states as a bar. */
export function ReplicaBar({ job }: { job: Pick<Job, "replicas" | "running" | "succeeded" | "failed"> }) {
  const w = useTexts(jobTexts)
  const c = useTexts(commonTexts)
  const told = PARTS.filter(([name]) => job[name] > 0)
    .map(([name]) => `${job[name]} ${w(name)}`)
    .join(c("listComma"))
  return (
    <div className="flex items-center gap-2" title={told}>
      <span className="min-w-6 text-right tabular-nums">{job.replicas}</span>
      <span aria-hidden className="flex h-1.5 w-16 overflow-hidden rounded-full bg-muted">
        {PARTS.map(([name, colour]) => (
          <span
            key={name}
            className={classes("h-full", colour)}
            style={{ width: `${(100 * job[name]) / Math.max(1, job.replicas)}%` }}
          />
        ))}
      </span>
      <span className="sr-only">{told}</span>
    </div>
  )
}
