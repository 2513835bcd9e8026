import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Send } from "lucide-react"
import { useMemo, useState } from "react"
import {
  adaptersQuery,
  type DispatchJob,
  type DispatchState,
  dispatchJobsQuery,
  useLiveDispatchJobs,
} from "@/api/dispatch"
import { usePreferences } from "@/app/preferences"
import { CreateButton } from "@/components/actions"
import { actionsColumn, type Column } from "@/components/data-table"
import { ChoiceFilter, CreatedFilter, OwnerFilter, StateFilter, useSince } from "@/components/filters"
import { ListPage } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { Owner } from "@/components/owner"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { dispatchTexts } from "@/i18n/dispatch"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { DispatchActions } from "./actions"
import { JobState, kindName, Place, Progress, placeName, reasonOf } from "./badges"
import { SubmitForm } from "./submit"

const route = getRouteApi("/shell/dispatch")
const STATES: DispatchState[] = [
  "waiting",
  "starting",
  "preparing",
  "running",
  "submitting",
  "stopping",
  "cancelling",
  "restarting",
  "succeeded",
  "failed",
  "cancelled",
]

export function DispatchList() {
  const w = useTexts(dispatchTexts)
  const c = useTexts(commonTexts)
  const language = usePreferences((all) => all.language)
  const [submitting, setSubmitting] = useState(false)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created")
  const { filter, asked } = list
  const state = STATES.find((each) => each === search.state)
  const adapters = useQuery(adaptersQuery)
  const since = useSince(search.days)
  useLiveDispatchJobs()
  const found = usePage(
    dispatchJobsQuery({
      q: search.q,
      owner: search.owner,
      since,
      adapter: search.adapter ? [search.adapter] : undefined,
      state: state && [state],
      ...asked,
    }),
  )
  const columns = useMemo(
    (): Column<DispatchJob>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (job) => (
          <div className="min-w-40">
            <Link
              to="/dispatch/$job"
              params={{ job: job.id }}
              className="font-medium wrap-anywhere text-primary hover:underline"
            >
              {job.name}
            </Link>
            <p className="text-[13px] text-muted-foreground">{kindName(job.kind, w("container"))}</p>
          </div>
        ),
      },
      {
        id: "state",
        header: w("state"),
        sort: "state",
        cell: (job) => (
          <div className="max-w-md min-w-32">
            <JobState job={job} />
            {job.reason && (
              <p className="mt-0.5 line-clamp-2 text-[13px] text-muted-foreground">{reasonOf(job, language)}</p>
            )}
          </div>
        ),
      },
      { id: "adapter", header: w("adapter"), sort: "adapter", cell: (job) => <Place job={job} /> },
      { id: "progress", header: w("progress"), cell: (job) => <Progress job={job} /> },
      { id: "owner", header: c("owner"), cell: (job) => <Owner of={job} noneHelp={w("nobodyHelp")} /> },
      { id: "created", header: c("created"), sort: "created", cell: (job) => <Time at={job.created} /> },
      {
        id: "duration",
        header: w("duration"),
        cell: (job) => <Duration started={job.started} finished={job.ended} />,
      },
      actionsColumn(c("actions"), (job) => <DispatchActions job={job} />),
    ],
    [w, c, language],
  )
  const create = <CreateButton onClick={() => setSubmitting(true)}>{w("create")}</CreateButton>
  return (
    <ListPage
      w={w}
      list={list}
      found={found}
      columns={columns}
      rowId={(job) => job.id}
      icon={Send}
      create={create}
      filters={
        <>
          <ChoiceFilter
            label={w("adapter")}
            all={w("allAdapters")}
            choices={(adapters.data ?? []).map(({ name }) => ({
              value: name,
              label: placeName(name, w("thisCluster")),
            }))}
            value={search.adapter}
            onChange={(adapter) => filter({ adapter })}
          />
          <StateFilter states={STATES} w={w} value={state} onChange={(state) => filter({ state })} />
          <OwnerFilter value={search.owner} onChange={(owner) => filter({ owner })} />
          <CreatedFilter days={search.days} onChange={(days) => filter({ days })} />
        </>
      }
    >
      {submitting && <SubmitForm close={() => setSubmitting(false)} />}
    </ListPage>
  )
}
