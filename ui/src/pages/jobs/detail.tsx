import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { lazy, Suspense } from "react"
import { type JobPlace, jobEventsQuery, jobQuery, jobYamlQuery, useLiveJob } from "@/api/jobs"
import { CodeView } from "@/components/code"
import { DetailPage, Facts } from "@/components/detail-page"
import { EventList } from "@/components/event-list"
import { Loading, ProblemView } from "@/components/feedback"
import { Owner } from "@/components/owner"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { TensorBoardButton } from "@/components/tensorboard-button"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { jobTexts } from "@/i18n/jobs"
import { metricTexts } from "@/i18n/metrics"
import { useTexts } from "@/i18n/translate"
import { JobActions } from "./actions"
import { JobState, KindBadge } from "./badges"
import { chosenPods, Logs } from "./logs"
import { Overview, Reasons } from "./overview"

const route = getRouteApi("/shell/jobs/$namespace/$kind/$name")
const MetricsPanel = lazy(() =>
  import("@/components/metrics-panel").then(({ MetricsPanel }) => ({ default: MetricsPanel })),
)
const PodUsagePanel = lazy(() =>
  import("@/components/pod-usage").then(({ PodUsagePanel }) => ({ default: PodUsagePanel })),
)

const OVER: ReadonlySet<string> = new Set(["succeeded", "failed"])

export function JobPage() {
  const w = useTexts(jobTexts)
  const m = useTexts(metricTexts)
  const c = useTexts(commonTexts)
  const place = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(jobQuery(place))
  const gone = useLiveJob(place)
  return (
    <DetailPage
      name={place.name}
      list={{ to: "/jobs", title: w("title") }}
      found={found}
      deleted={gone && w("wasDeleted")}
    >
      {(job, back) => {
        const choose = (pods: string[]) =>
          void navigate({ search: (before) => ({ ...before, pods: pods.join(",") || "-" }), replace: true })
        const tabs = [
          { id: "overview", label: w("overview"), content: <Overview job={job} /> },
          {
            id: "logs",
            label: w("logs"),
            content: <Logs job={job} place={place} chosen={chosenPods(job.roles, search.pods)} choose={choose} />,
          },
          {
            id: "metrics",
            label: m("metrics"),
            content: (
              <Suspense fallback={<Loading />}>
                <MetricsPanel of={{ job: place }} />
              </Suspense>
            ),
          },
          {
            id: "usage",
            label: m("usage"),
            content: (
              <Suspense fallback={<Loading />}>
                <PodUsagePanel of={{ job: place }} goes={!OVER.has(job.state)} />
              </Suspense>
            ),
          },
          { id: "events", label: w("events"), content: <Events place={place} /> },
          { id: "yaml", label: w("yaml"), content: <Yaml place={place} /> },
        ]
        return (
          <Page
            wide
            title={job.name}
            aside={<JobState job={job} />}
            above={back}
            lead={
              <Facts>
                <KindBadge kind={job.kind} word={job.word} />
                <span>
                  {w("namespace")}: {job.namespace}
                </span>
                <span>
                  {c("owner")}: <Owner of={job} noneHelp={w("nobodyHelp")} />
                </span>
                {job.run_id && (
                  <Link to="/runs/$run" params={{ run: job.run_id }} className="text-primary hover:underline">
                    {w("run")}: {job.run_name ?? job.run_id}
                  </Link>
                )}
                <span>
                  {w("started")}: <Time at={job.started} />
                </span>
                <span>
                  {w("duration")}: <Duration started={job.started} finished={job.finished} />
                </span>
                {job.restarts > 0 && (
                  <span>
                    {w("restarts")}: {job.restarts}
                  </span>
                )}
              </Facts>
            }
            actions={
              <>
                <TensorBoardButton of={{ job: `${place.namespace}/${place.kind}/${place.name}` }} />
                <JobActions job={job} open />
              </>
            }
          >
            <Reasons job={job} />
            <Tabs
              tabs={tabs}
              value={search.tab}
              onChange={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
              inside="pt-4"
            />
          </Page>
        )
      }}
    </DetailPage>
  )
}

function Events({ place }: { place: JobPlace }) {
  const events = useQuery(jobEventsQuery(place))
  if (events.error) return <ProblemView error={events.error} />
  if (!events.data) return <Loading />
  return <EventList events={[...events.data].reverse()} className="divide-y rounded-lg border bg-card" />
}

function Yaml({ place }: { place: JobPlace }) {
  const w = useTexts(jobTexts)
  const yaml = useQuery(jobYamlQuery(place))
  if (yaml.error) return <ProblemView error={yaml.error} />
  if (yaml.data === undefined) return <Loading />
  return <CodeView label={w("yaml")} text={yaml.data} />
}
