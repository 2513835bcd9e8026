/** A CronWorkflow: when it runs next, and what it has started. */
import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { allRunsQuery, useLiveAllRuns } from "@/api/argo"
import { failure } from "@/api/problem"
import { scheduleQuery, scheduleYamlQuery } from "@/api/schedules"
import { usePreferences } from "@/app/preferences"
import { CodeView } from "@/components/code"
import { Loading, ProblemView } from "@/components/feedback"
import { Listing, usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { scheduleTexts } from "@/i18n/schedules"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { moment } from "@/lib/times"
import { useAnyRunColumns } from "../runs/list"
import { ScheduleActions, ScheduleBadge, Times } from "./list"

const route = getRouteApi("/shell/schedules/$namespace/$name")

export function SchedulePage() {
  const w = useTexts(scheduleTexts)
  const c = useTexts(commonTexts)
  const language = usePreferences((all) => all.language)
  const place = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(scheduleQuery(place))
  useLiveAllRuns()
  const back = (
    <Link to="/schedules" className="hover:underline">
      {w("title")}
    </Link>
  )
  if (failure(found))
    return (
      <Page title={place.name} above={back}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const schedule = found.data
  const tabs = [
    { id: "history", label: w("history"), content: <History /> },
    { id: "yaml", label: w("yaml"), content: <Manifest /> },
  ]
  return (
    <Page
      wide
      title={schedule.name}
      aside={<ScheduleBadge schedule={schedule} />}
      above={back}
      lead={
        <div className="flex flex-wrap gap-x-4 text-[13px]">
          <Times schedule={schedule} />
          <span>
            {c("owner")}: {schedule.owner_name ?? schedule.team_name ?? schedule.namespace}
          </span>
          <span>
            {w("last")}: <Time at={schedule.last} />
          </span>
        </div>
      }
      actions={<ScheduleActions schedule={schedule} open />}
    >
      {schedule.message && (
        <p role="alert" className="rounded-md border border-failed/40 bg-failed/8 px-3 py-2 break-words">
          {schedule.message}
        </p>
      )}
      <section aria-label={w("nextRuns")} className="flex flex-col gap-1.5">
        <h2 className="text-sm font-semibold">{w("nextRuns")}</h2>
        {schedule.next.length ? (
          <ol className="flex flex-wrap gap-2 text-[13px]">
            {schedule.next.map((at) => (
              <li key={at} className="rounded-md border bg-card px-2.5 py-1 tabular-nums">
                {moment(at, language)}
              </li>
            ))}
          </ol>
        ) : (
          <p className="text-muted-foreground">{w("noNext")}</p>
        )}
      </section>
      <Tabs
        tabs={tabs}
        value={search.tab === "yaml" ? "yaml" : "history"}
        onChange={(tab) => void navigate({ search: (before) => ({ ...before, tab }), replace: true })}
        inside="pt-3"
      />
    </Page>
  )
}

function History() {
  const w = useTexts(scheduleTexts)
  const { namespace, name } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { asked, shown } = listState(search, navigate, "-created")
  const columns = useAnyRunColumns()
  const found = usePage(allRunsQuery({ schedule: name, namespace, ...asked }))
  return (
    <div className="flex flex-col gap-2">
      <p className="text-[13px] text-muted-foreground">{w("historyHelp")}</p>
      <Listing
        label={w("history")}
        found={found}
        columns={columns}
        rowId={(run) => run.id}
        {...shown}
        empty={<p className="text-muted-foreground">{w("noHistory")}</p>}
      />
    </div>
  )
}

function Manifest() {
  const w = useTexts(scheduleTexts)
  const found = useQuery(scheduleYamlQuery(route.useParams()))
  if (failure(found)) return <ProblemView error={found.error} retry={() => void found.refetch()} />
  if (found.data === undefined) return <Loading />
  return <CodeView label={w("yaml")} text={found.data} />
}
