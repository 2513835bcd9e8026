import { Archive, CircleCheck, CircleX, Eye, LoaderCircle, Lock, TriangleAlert } from "lucide-react"
import { MODULE_STATES } from "@/lib/module-states"
import { moduleWords } from "@/words/modules"
import { useWords } from "@/words/words"
import { Badge } from "./badge"

const ICONS: Record<string, typeof Lock> = {
  building: LoaderCircle,
  "build failed": TriangleAlert,
  private: Lock,
  "in review": Eye,
  rejected: CircleX,
  published: CircleCheck,
  deprecated: Archive,
}

/** Of a version of a module. */
export function ModuleState({ state }: { state: string }) {
  const w = useWords(moduleWords)
  const known = MODULE_STATES[state]
  const Icon = ICONS[state] ?? Lock
  return (
    <Badge tone={known?.tone ?? "plain"}>
      <Icon aria-hidden className={state === "building" ? "animate-spin" : ""} />
      {w(known?.word ?? "stateUnknown")}
    </Badge>
  )
}
