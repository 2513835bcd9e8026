/** The places of the product, in groups: what is built, what runs, where people work, and what it runs on. */
import {
  Boxes,
  CalendarClock,
  ChartSpline,
  HardDrive,
  House,
  ListChecks,
  Network,
  NotebookPen,
  Play,
  Send,
  Server,
  Settings,
  Waypoints,
  Workflow,
} from "lucide-react"
import type { ComponentType } from "react"
import type { Me } from "@/api/client"
import type { shellTexts } from "@/i18n/shell"

type Word = keyof typeof shellTexts

export interface NavigationItem {
  to: string
  word: Word
  icon: ComponentType<{ className?: string }>
  for?: (me: Me) => boolean
}

interface NavigationGroup {
  /** Its heading; the first group has none. */
  word?: Word
  items: NavigationItem[]
}

export const NAVIGATION_GROUPS: NavigationGroup[] = [
  { items: [{ to: "/", word: "home", icon: House }] },
  {
    word: "groupRun",
    items: [
      { to: "/runs", word: "runs", icon: Play },
      { to: "/schedules", word: "schedules", icon: CalendarClock },
      { to: "/jobs", word: "jobs", icon: Network },
      { to: "/dispatch", word: "dispatch", icon: Send },
    ],
  },
  {
    word: "groupBuild",
    items: [
      { to: "/workflows", word: "workflows", icon: Workflow },
      { to: "/pipelines", word: "pipelines", icon: Waypoints },
      { to: "/modules", word: "modules", icon: Boxes },
      { to: "/reviews", word: "reviews", icon: ListChecks },
    ],
  },
  {
    word: "groupWork",
    items: [
      { to: "/notebooks", word: "notebooks", icon: NotebookPen },
      { to: "/tensorboards", word: "tensorboards", icon: ChartSpline },
      { to: "/volumes", word: "volumes", icon: HardDrive },
    ],
  },
  {
    word: "groupManage",
    items: [
      { to: "/cluster", word: "cluster", icon: Server },
      { to: "/admin", word: "admin", icon: Settings, for: (me) => me.user.role === "admin" },
    ],
  },
]

export const NAVIGATION: NavigationItem[] = NAVIGATION_GROUPS.flatMap((group) => group.items)
