import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Plus, Send } from "lucide-react"
import { useMemo, useState } from "react"
import {
  adaptersQuery,
  type DispatchJob,
  type DispatchState,
  dispatchJobsQuery,
  useLiveDispatchJobs,
} from "@/api/dispatch"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import {
  ChoiceFilter,
  CreatedFilter,
  Filters,
  OwnerFilter,
  SearchBox,
  StateFilter,
  useSince,
} from "@/components/filters"
import { Listing } from "@/components/listing"
import { Owner } from "@/components/owner"
import { Page } from "@/components/page"
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
  const { filter, asked, shown } = listState(search, navigate, "-created")
  const state = STATES.find((each) => each === search.state)
  const adapters = useQuery(adaptersQuery)
  const since = useSince(search.days)
  useLiveDispatchJobs()
  const found = useQuery({
    ...dispatchJobsQuery({
      q: search.q,
      owner: search.owner,
      since,
      ...(search.adapter ? { adapter: [search.adapter] } : {}),
      ...(state ? { state: [state] } : {}),
      ...asked,
    }),
    placeholderData: keepPreviousData,
  })
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
              className="font-medium break-all text-primary hover:underline"
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
  const create = (
    <Button look="primary" onClick={() => setSubmitting(true)}>
      <Plus />
      {w("create")}
    </Button>
  )
  const filtered = search.q || search.state || search.adapter || search.owner || search.days
  return (
    <Page title={w("title")} lead={w("lead")} actions={create} wide>
      <Filters>
        <SearchBox label={w("search")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <ChoiceFilter
          label={w("adapter")}
          all={w("allAdapters")}
          choices={(adapters.data ?? []).map(({ name }) => ({ value: name, label: placeName(name, w("thisCluster")) }))}
          value={search.adapter}
          onChange={(adapter) => filter({ adapter })}
        />
        <StateFilter
          label={w("state")}
          all={w("allStates")}
          states={STATES}
          text={w}
          value={state}
          onChange={(state) => filter({ state })}
        />
        <OwnerFilter value={search.owner} onChange={(owner) => filter({ owner })} />
        <CreatedFilter days={search.days} onChange={(days) => filter({ days })} />
      </Filters>
      <Listing
        label={w("title")}
        found={found}
        columns={columns}
        rowId={(job) => job.id}
        {...shown}
        clear={filtered ? () => void navigate({ search: {} }) : undefined}
        empty={
          <Empty icon={Send} title={w("empty")} actions={create}>
            {w("emptyHelp")}
          </Empty>
        }
      />
      {submitting && <SubmitForm close={() => setSubmitting(false)} />}
    </Page>
  )
}
