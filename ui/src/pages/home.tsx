import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Plus, Workflow as WorkflowIcon } from "lucide-react"
import { useMe } from "@/api/session"
import { workflowsQuery } from "@/api/workflows"
import { Button } from "@/components/button"
import { Empty, Loading } from "@/components/feedback"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { Time } from "@/components/time"
import { homeWords } from "@/words/shell"
import { useWords } from "@/words/words"
import { workflowWords } from "@/words/workflows"
import { ClusterUsage } from "./cluster-usage"
import { NeedsMe } from "./needs-me"

export function Home() {
  const w = useWords(homeWords)
  const f = useWords(workflowWords)
  const { user } = useMe()
  const mine = useQuery(workflowsQuery({ owner: user.name, sort: "-updated", limit: 8 }))
  return (
    <Page title={w("hello", { name: user.display_name || user.name })}>
      <NeedsMe />
      <ClusterUsage />
      <section className="flex flex-col gap-3">
        <div className="flex items-center justify-between gap-2">
          <h2>{w("recentWorkflows")}</h2>
          <Link to="/workflows" className="text-[13px] text-primary hover:underline">
            {w("allWorkflows")}
          </Link>
        </div>
        <ProblemView error={mine.error} retry={() => void mine.refetch()} />
        {mine.isPending && <Loading />}
        {mine.data &&
          (mine.data.items.length ? (
            <ul className="grid gap-3 sm:grid-cols-2 lg:grid-cols-3">
              {mine.data.items.map((workflow) => (
                <li key={workflow.id}>
                  <Link
                    to="/workflows/$workflow"
                    params={{ workflow: workflow.id }}
                    className="flex h-full flex-col gap-1 rounded-lg border bg-card p-4 hover:border-ring"
                  >
                    <span className="truncate font-medium">{workflow.name}</span>
                    <span className="line-clamp-2 text-[13px] text-muted-foreground">{workflow.description}</span>
                    <span className="mt-auto pt-2 text-xs text-muted-foreground">
                      {w("versionsOf", { n: workflow.versions })} · <Time at={workflow.updated} />
                    </span>
                  </Link>
                </li>
              ))}
            </ul>
          ) : (
            <Empty
              icon={WorkflowIcon}
              title={w("noWorkflows")}
              actions={
                <>
                  <Button asChild>
                    <Link to="/workflows/new" search={{ type: "yaml" }}>
                      {f("import")}
                    </Link>
                  </Button>
                  <Button asChild look="primary">
                    <Link to="/workflows/new">
                      <Plus />
                      {f("create")}
                    </Link>
                  </Button>
                </>
              }
            >
              {w("noWorkflowsHelp")}
            </Empty>
          ))}
      </section>
    </Page>
  )
}
