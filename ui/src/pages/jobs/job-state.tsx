import { CircleCheck, CircleDashed, CircleX, Eraser, LoaderCircle, PauseCircle, RotateCw, Trash2 } from "lucide-react"
import type { Job, JobMember } from "@/api/jobs"
import { Badge, type Tone } from "@/components/badge"
import { jobWords } from "@/words/jobs"
import { useWords } from "@/words/words"

type State = Job["state"] | JobMember["state"] | "deleting"

const LOOKS: Record<State, { tone: Tone; icon: typeof CircleX; turns?: boolean }> = {
  waiting: { tone: "waiting", icon: CircleDashed },
  running: { tone: "running", icon: LoaderCircle, turns: true },
  restarting: { tone: "warning", icon: RotateCw, turns: true },
  suspended: { tone: "warning", icon: PauseCircle },
  succeeded: { tone: "succeeded", icon: CircleCheck },
  failed: { tone: "failed", icon: CircleX },
  deleting: { tone: "waiting", icon: Trash2 },
  gone: { tone: "waiting", icon: Eraser },
}

/** Blue runs, green has succeeded, red has failed, grey waits; and an icon says the same. */
export function JobStateBadge({ state }: { state: State }) {
  const w = useWords(jobWords)
  const { tone, icon: Icon, turns } = LOOKS[state]
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
