/** Where one can go. A new area is one line here, a route in router.tsx, and a page. */
import { Boxes, House, ListChecks, Network, Play, Server, Settings, Workflow } from "lucide-react"
import type { ComponentType } from "react"
import type { Me } from "@/api/session"
import type { shellWords } from "@/words/shell"

export interface Place {
  to: string
  word: keyof typeof shellWords
  icon: ComponentType<{ className?: string }>
  /** Whether there is a page yet. */
  ready: boolean
  for?: (me: Me) => boolean
}

export const PLACES: Place[] = [
  { to: "/", word: "home", icon: House, ready: true },
  { to: "/workflows", word: "workflows", icon: Workflow, ready: true },
  { to: "/runs", word: "runs", icon: Play, ready: true },
  { to: "/modules", word: "modules", icon: Boxes, ready: true },
  { to: "/reviews", word: "reviews", icon: ListChecks, ready: true },
  { to: "/jobs", word: "jobs", icon: Network, ready: true },
  { to: "/cluster", word: "cluster", icon: Server, ready: true },
  { to: "/admin", word: "admin", icon: Settings, ready: true, for: (me) => me.user.role === "admin" },
]
