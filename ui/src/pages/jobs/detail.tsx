import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { lazy, Suspense } from "react"
import { type JobPlace, jobEventsQuery, jobQuery, jobYamlQuery, useLiveJob } from "@/api/jobs"
import { failure } from "@/api/problem"
import { CodeView } from "@/components/code"
import { DetailPage, Events, Fact, TabbedPage } from "@/components/detail-page"
import { Loading, ProblemView } from "@/components/feedback"
import { Owner } from "@/components/owner"
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
          { id: "events", label: w("events"), content: <JobEvents place={place} /> },
          { id: "yaml", label: w("yaml"), content: <Yaml place={place} /> },
        ]
        return (
          <TabbedPage
            title={job.name}
            state={<JobState job={job} />}
            back={back}
            facts={
              <>
                <KindBadge kind={job.kind} word={job.word} />
                <Fact label={w("namespace")}>{job.namespace}</Fact>
                <Fact label={c("owner")}>
                  <Owner of={job} noneHelp={w("nobodyHelp")} />
                </Fact>
                {job.run_id && (
                  <Link to="/runs/$run" params={{ run: job.run_id }} className="text-primary hover:underline">
                    {w("run")}: {job.run_name ?? job.run_id}
                  </Link>
                )}
                <Fact label={w("started")}>
                  <Time at={job.started} />
                </Fact>
                <Fact label={w("duration")}>
                  <Duration started={job.started} finished={job.finished} />
                </Fact>
                {job.restarts > 0 && <Fact label={w("restarts")}>{job.restarts}</Fact>}
              </>
            }
            actions={
              <>
                <TensorBoardButton of={{ job: `${place.namespace}/${place.kind}/${place.name}` }} />
                <JobActions job={job} open />
              </>
            }
            notice={<Reasons job={job} />}
            tabs={tabs}
            tab={search.tab}
            onTab={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
          />
        )
      }}
    </DetailPage>
  )
}

function JobEvents({ place }: { place: JobPlace }) {
  return <Events found={useQuery(jobEventsQuery(place))} />
}

function Yaml({ place }: { place: JobPlace }) {
  const w = useTexts(jobTexts)
  const yaml = useQuery(jobYamlQuery(place))
  if (failure(yaml)) return <ProblemView error={yaml.error} />
  if (yaml.data === undefined) return <Loading />
  return <CodeView label={w("yaml")} text={yaml.data} />
}
