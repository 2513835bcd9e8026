/** The start page: what needs your attention, the latest runs and workflows, and the use of the cluster. */
import { useQuery } from "@tanstack/react-query"
import { Link, useNavigate } from "@tanstack/react-router"
import { CircleCheck, CircleX, ListChecks, Play, TriangleAlert, Workflow as WorkflowIcon } from "lucide-react"
import { useState } from "react"
import { api, data, useMe } from "@/api/client"
import { clustersNowQuery, nodesQuery } from "@/api/cluster"
import { runExample } from "@/api/example"
import { modulesQuery } from "@/api/modules"
import { workflowsQuery } from "@/api/workflows"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Meter } from "@/components/meter"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { noteError } from "@/components/toasts"
import { clusterTexts } from "@/i18n/cluster"
import { statusMessage } from "@/i18n/server-messages"
import { homeTexts } from "@/i18n/shell"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"
import { amountText, resourceName, sumAmounts } from "@/lib/amounts"

export function Home() {
  const w = useTexts(homeTexts)
  const f = useTexts(workflowTexts)
  const { user } = useMe()
  const mine = useQuery(workflowsQuery({ owner: user.name, sort: "-updated", limit: 8 }))
  return (
    <Page title={w("hello", { name: user.display_name || user.name })}>
      <NeedsAttention />
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
                  <RunExample />
                  <Button asChild>
                    <Link to="/workflows/new" search={{ type: "yaml" }}>
                      {f("import")}
                    </Link>
                  </Button>
                  <Button asChild>
                    <Link to="/workflows/new">{f("create")}</Link>
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

/** Creates a small workflow with a training node, starts it, and shows it running. */
function RunExample() {
  const w = useTexts(homeTexts)
  const language = usePreferences((all) => all.language)
  const { user } = useMe()
  const navigate = useNavigate()
  const [busy, setBusy] = useState(false)
  const start = async () => {
    setBusy(true)
    try {
      const run = await runExample(w("exampleName", { name: user.name }), w("exampleHelp"), language)
      void navigate({ to: "/runs/$run", params: { run: run.id } })
    } catch (error) {
      noteError(error)
      setBusy(false)
    }
  }
  return (
    <Button look="primary" disabled={busy} onClick={() => void start()} title={w("exampleHelp")}>
      <Play />
      {w("runExample")}
    </Button>
  )
}

export function NeedsAttention() {
  const language = usePreferences((all) => all.language)
  const w = useTexts(homeTexts)
  const me = useMe()
  const failed = useQuery({
    queryKey: ["runs", "needs-me", me.user.name],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/runs", { params: { query: { owner: me.user.name, state: ["failed"], limit: 5 } }, signal })
        .then(data),
  })
  const leads = me.user.role === "admin" || Object.values(me.teams).includes("leader")
  const reviews = useQuery({
    queryKey: ["reviews", "needs-me"],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/reviews", { params: { query: { state: "open", limit: 5 } }, signal }).then(data),
    enabled: leads,
  })
  const rejected = useQuery(modulesQuery({ mine: true, state: "rejected", limit: 5 })).data?.items ?? []
  const waiting = (reviews.data?.items ?? []).filter((review) => review.may.includes("approve"))
  const runs = failed.data?.items ?? []
  if (failed.isPending) return null
  return (
    <section className="flex flex-col gap-3">
      <h2>{w("needsYou")}</h2>
      {runs.length + waiting.length + rejected.length === 0 ? (
        <p className="inline-flex items-center gap-2 text-muted-foreground">
          <CircleCheck aria-hidden className="size-4 text-success" />
          {w("nothingNeedsYou")}
        </p>
      ) : (
        <ul className="flex flex-col divide-y rounded-lg border bg-card">
          {runs.map((run) => (
            <li key={run.id} className="flex items-center gap-3 px-4 py-2.5">
              <TriangleAlert aria-hidden className="size-4 shrink-0 text-failed" />
              <Link to="/runs/$run" params={{ run: run.id }} className="font-medium text-primary hover:underline">
                {run.name}
              </Link>
              <span className="min-w-0 flex-1 truncate text-[13px] text-muted-foreground">
                {statusMessage(run, language)}
              </span>
              <Time at={run.finished} />
            </li>
          ))}
          {rejected.map((module) => (
            <li key={module.id} className="flex items-center gap-3 px-4 py-2.5">
              <CircleX aria-hidden className="size-4 shrink-0 text-failed" />
              <Link
                to="/modules/$module"
                params={{ module: module.name }}
                className="font-medium text-primary hover:underline"
              >
                {module.name}
              </Link>
              <span className="min-w-0 flex-1 truncate text-[13px] text-muted-foreground">{w("moduleRejected")}</span>
              <Time at={module.updated} />
            </li>
          ))}
          {waiting.map((review) => (
            <li key={review.id} className="flex items-center gap-3 px-4 py-2.5">
              <ListChecks aria-hidden className="size-4 shrink-0 text-primary" />
              <Link
                to="/reviews/$review"
                params={{ review: review.id }}
                className="font-medium text-primary hover:underline"
              >
                {review.module_name} v{review.number}
              </Link>
              <span className="min-w-0 flex-1 truncate text-[13px] text-muted-foreground">{review.author_name}</span>
              <Time at={review.created} />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const MOST = 6

export function ClusterUsage() {
  const w = useTexts(clusterTexts)
  const language = usePreferences((all) => all.language)
  const clusters = useQuery(clustersNowQuery).data?.items
  const machines = useQuery({ ...nodesQuery, enabled: clusters?.length === 0 }).data?.items
  if (!clusters) return null
  const mine = clusters.filter((cluster) => cluster.usable).slice(0, MOST)
  const amounts = sumAmounts((machines ?? []).flatMap((machine) => machine.amounts)).filter(({ resource }) =>
    /^(cpu|memory)$|\//.test(resource),
  )
  if (mine.length + amounts.length === 0) return null
  return (
    <section className="flex flex-col gap-3">
      <div className="flex items-center justify-between gap-2">
        <h2>{w("usage")}</h2>
        <Link to="/cluster" className="text-[13px] text-primary hover:underline">
          {w("toCluster")}
        </Link>
      </div>
      <ul className="grid gap-x-8 gap-y-3 rounded-lg border bg-card p-4 sm:grid-cols-2 lg:grid-cols-3">
        {mine.map((cluster) => (
          <li key={cluster.id}>
            <Full
              name={
                <Link
                  to="/cluster/virtual/$cluster"
                  params={{ cluster: cluster.id }}
                  className="truncate font-medium text-primary hover:underline"
                >
                  {cluster.name}
                </Link>
              }
              label={cluster.name}
              used={cluster.used}
              total={cluster.available}
              text={w("skusOf", { used: cluster.used, n: cluster.available })}
            />
          </li>
        ))}
        {mine.length === 0 &&
          amounts.map(({ resource, used, allocatable }) => {
            const label = resource === "memory" ? w("memory") : resourceName(resource, language)
            const text = w("usedOf", { used: amountText(resource, used), total: amountText(resource, allocatable) })
            return (
              <li key={resource}>
                <Full
                  name={<span className="font-medium">{label}</span>}
                  label={label}
                  used={used}
                  total={allocatable}
                  text={text}
                />
              </li>
            )
          })}
      </ul>
    </section>
  )
}

function Full({
  name,
  label,
  used,
  total,
  text,
}: {
  name: React.ReactNode
  label: string
  used: number
  total: number
  text: string
}) {
  return (
    <div className="flex min-w-0 flex-col gap-1.5">
      <div className="flex items-baseline justify-between gap-3">
        {name}
        <span className="text-[13px] whitespace-nowrap text-muted-foreground tabular-nums">{text}</span>
      </div>
      <Meter label={label} value={used} max={total} text={text} />
    </div>
  )
}
