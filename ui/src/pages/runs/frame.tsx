/** The tabs of a run beside the panel of the node that is selected. */
import { lazy, type ReactNode, Suspense } from "react"
import { Loading } from "@/components/feedback"
import { type Tab, Tabs } from "@/components/tabs"
import type { useRunTasks } from "@/graph/run-tasks"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"

const TaskDetails = lazy(() => import("@/graph/workflow-graph").then(({ TaskDetails }) => ({ default: TaskDetails })))

interface Props {
  tabs: Tab[]
  /** The tab in the address. */
  view: string | undefined
  onView: (view: string) => void
  /** The node in the address. */
  node: string | undefined
  /** Its panel, if it was created. */
  panel: ReactNode
  /** What is drawn: of a node that was not created yet, what the manifest says is shown. */
  tasks: ReturnType<typeof useRunTasks>
}

export function TabsAndPanel({ tabs, view, onView, node, panel, tasks }: Props) {
  const w = useTexts(runTexts)
  return (
    <div className="flex min-h-0 gap-4 max-lg:flex-col">
      <Tabs className="min-w-0 flex-1" tabs={tabs} value={view} onChange={onView} inside="pt-3" />
      <aside
        aria-label={w("details")}
        className="h-[calc(100vh-13rem)] min-h-96 w-120 shrink-0 overflow-hidden rounded-lg border bg-card max-xl:w-88 max-lg:w-full"
      >
        {panel ||
          (node && tasks ? (
            <Suspense fallback={<Loading />}>
              <TaskDetails {...tasks} id={node} />
            </Suspense>
          ) : (
            <p className="p-4 text-muted-foreground">{w("chooseNode")}</p>
          ))}
      </aside>
    </div>
  )
}
