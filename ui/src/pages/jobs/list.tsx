import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Network } from "lucide-react"
import { useMemo } from "react"
import { type Job, jobKindsQuery, jobsQuery, placeOf, type JobState as State, useLiveJobs } from "@/api/jobs"
import { jobSubject } from "@/api/metrics"
import { CreateLink } from "@/components/actions"
import { CompareBar, compareColumn } from "@/components/compare"
import { actionsColumn, type Column, NameCell } from "@/components/data-table"
import { ChoiceFilter, CreatedFilter, OwnerFilter, StateFilter, useSince } from "@/components/filters"
import { ListPage } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { Owner } from "@/components/owner"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { jobTexts } from "@/i18n/jobs"
import { metricTexts } from "@/i18n/metrics"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { JobActions } from "./actions"
import { JobState, KindBadge, kindTitle, ReplicaBar } from "./badges"

const route = getRouteApi("/shell/jobs")
const STATES: State[] = ["waiting", "running", "restarting", "suspended", "succeeded", "failed"]

export function JobList() {
  const w = useTexts(jobTexts)
  const c = useTexts(commonTexts)
  const m = useTexts(metricTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created")
  const { filter, asked } = list
  const state = STATES.find((each) => each === search.state)
  const kinds = useQuery(jobKindsQuery)
  const since = useSince(search.days)
  useLiveJobs()
  const found = usePage(
    jobsQuery({
      q: search.q,
      owner: search.owner,
      run: search.run,
      since,
      kind: search.kind ? [search.kind] : undefined,
      state: state && [state],
      ...asked,
    }),
  )
  const columns = useMemo(
    (): Column<Job>[] => [
      compareColumn(m, (job) => ({ subject: jobSubject(placeOf(job)), name: job.name })),
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (job) => (
          <NameCell namespace={job.namespace}>
            <Link to="/jobs/$namespace/$kind/$name" params={placeOf(job)}>
              {job.name}
            </Link>
          </NameCell>
        ),
      },
      { id: "kind", header: w("kind"), sort: "kind", cell: (job) => <KindBadge kind={job.kind} word={job.word} /> },
      { id: "state", header: w("state"), sort: "state", cell: (job) => <JobState job={job} /> },
      { id: "replicas", header: w("replicas"), cell: (job) => <ReplicaBar job={job} /> },
      { id: "owner", header: c("owner"), cell: (job) => <OwnerAndRun job={job} /> },
      { id: "created", header: c("created"), sort: "created", cell: (job) => <Time at={job.created} /> },
      {
        id: "duration",
        header: w("duration"),
        cell: (job) => <Duration started={job.started} finished={job.finished} />,
      },
      actionsColumn(c("actions"), (job) => <JobActions job={job} />),
    ],
    [w, c, m],
  )
  const create = <CreateLink to="/jobs/new">{w("create")}</CreateLink>
  return (
    <ListPage
      w={w}
      list={list}
      found={found}
      columns={columns}
      rowId={(job) => job.uid}
      icon={Network}
      create={create}
      filters={
        <>
          <ChoiceFilter
            label={w("kind")}
            all={w("allKinds")}
            className="w-44"
            choices={(kinds.data ?? []).map(({ kind, word }) => ({ value: word, label: kindTitle(kind, word) }))}
            value={search.kind}
            onChange={(kind) => filter({ kind })}
          />
          <StateFilter states={STATES} w={w} value={state} onChange={(state) => filter({ state })} />
          <OwnerFilter value={search.owner} onChange={(owner) => filter({ owner })} />
          <CreatedFilter days={search.days} onChange={(days) => filter({ days })} />
        </>
      }
    >
      <CompareBar />
    </ListPage>
  )
}

function OwnerAndRun({ job }: { job: Job }) {
  const w = useTexts(jobTexts)
  return (
    <div>
      <Owner of={job} noneHelp={w("nobodyHelp")} />
      {job.run_id && (
        <p>
          <Link to="/runs/$run" params={{ run: job.run_id }} className="text-[13px] text-primary hover:underline">
            {w("run")}: {job.run_name ?? job.run_id}
          </Link>
        </p>
      )}
    </div>
  )
}
