import { CircleCheck, CircleX, Hourglass, Undo2 } from "lucide-react"
import type { ReviewState as State } from "@/api/modules"
import { reviewWords } from "@/words/modules"
import { useWords } from "@/words/words"
import { Badge, type Tone } from "./badge"

const LOOKS: Record<State, { tone: Tone; icon: typeof Undo2 }> = {
  open: { tone: "warning", icon: Hourglass },
  approved: { tone: "succeeded", icon: CircleCheck },
  rejected: { tone: "failed", icon: CircleX },
  withdrawn: { tone: "waiting", icon: Undo2 },
}

export function ReviewState({ state }: { state: State }) {
  const w = useWords(reviewWords)
  const { tone, icon: Icon } = LOOKS[state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden />
      {w(state)}
    </Badge>
  )
}
