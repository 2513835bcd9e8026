import { Ban, CircleCheck, CircleDashed, CircleX, LoaderCircle, SkipForward } from "lucide-react"
import { runWords } from "@/words/runs"
import { useWords } from "@/words/words"
import { Badge, type Tone } from "./badge"

export type State = "waiting" | "running" | "succeeded" | "failed" | "stopped" | "skipped" | "stopping"

const LOOKS: Record<State, { tone: Tone; icon: typeof Ban }> = {
  waiting: { tone: "waiting", icon: CircleDashed },
  running: { tone: "running", icon: LoaderCircle },
  stopping: { tone: "waiting", icon: LoaderCircle },
  succeeded: { tone: "succeeded", icon: CircleCheck },
  failed: { tone: "failed", icon: CircleX },
  stopped: { tone: "waiting", icon: Ban },
  skipped: { tone: "waiting", icon: SkipForward },
}

/** Blue runs, green has succeeded, red has failed, grey waits; and an icon says the same. */
export function StateBadge({ state }: { state: State }) {
  const w = useWords(runWords)
  const { tone, icon: Icon } = LOOKS[state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden className={state === "running" || state === "stopping" ? "animate-spin" : ""} />
      {w(state)}
    </Badge>
  )
}
