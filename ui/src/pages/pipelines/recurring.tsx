import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { CalendarClock, CircleCheck, CirclePause, Pause, Play, Trash2 } from "lucide-react"
import { useMemo } from "react"
import {
  act,
  pipelineOptionsQuery,
  type RecurringRun,
  recurringRunQuery,
  recurringRunsQuery,
  remove,
  runsQuery,
  type Trigger,
} from "@/api/pipelines"
import { failure } from "@/api/problem"
import { Actions, CreateLink } from "@/components/actions"
import { Badge } from "@/components/badge"
import { actionsColumn, type Column } from "@/components/data-table"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { FilteredList } from "@/components/list-page"
import { Listing, usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Duration, Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { pipelineTexts } from "@/i18n/pipelines"
import { type Translate, useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"
import { duration } from "@/lib/times"
import { Above, PipelinesNavigation, type PipelineWord, RunStateBadge, Section } from "./parts"
import { RunActions } from "./runs"
import { Values } from "./visualisations"

const listRoute = getRouteApi("/shell/pipelines/recurring")
const route = getRouteApi("/shell/pipelines/recurring/$recurring")

export function RecurringRunList() {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const search = listRoute.useSearch()
  const navigate = listRoute.useNavigate()
  const list = listState(search, navigate, "-created_at")
  const found = usePage(recurringRunsQuery({ q: search.q, ...list.asked }))
  const pipelines = useQuery(pipelineOptionsQuery).data
  const columns = useMemo((): Column<RecurringRun>[] => {
    const names = new Map(pipelines?.items.map((each) => [each.pipeline_id, each.display_name]))
    return [
      {
        id: "name",
        header: c("name"),
        sort: "display_name",
        cell: (recurring) => (
          <Link
            to="/pipelines/recurring/$recurring"
            params={{ recurring: recurring.recurring_run_id }}
            className="font-medium wrap-anywhere text-primary hover:underline"
          >
            {recurring.display_name}
          </Link>
        ),
      },
      { id: "status", header: w("state"), sort: "status", cell: (recurring) => <StatusBadge recurring={recurring} /> },
      { id: "schedule", header: w("schedule"), cell: ({ trigger }) => scheduleText(trigger, w) },
      {
        id: "pipeline",
        header: w("pipeline"),
        cell: ({ pipeline_version_reference: of }) =>
          of ? (names.get(of.pipeline_id) ?? of.pipeline_id.slice(0, 8)) : w("ownSpec"),
      },
      { id: "created", header: c("created"), sort: "created_at", cell: ({ created_at }) => <Time at={created_at} /> },
      actionsColumn(c("actions"), (recurring) => <RecurringActions recurring={recurring} />),
    ]
  }, [w, c, pipelines])
  const create = (
    <CreateLink to="/pipelines/runs/new" search={{ recurring: "true" }}>
      {w("newRecurring")}
    </CreateLink>
  )
  return (
    <Page title={w("recurringRuns")} lead={w("recurringLead")} actions={create} wide>
      <PipelinesNavigation />
      <FilteredList
        list={list}
        search={w("search")}
        label={w("recurringRuns")}
        found={found}
        columns={columns}
        rowId={(recurring) => recurring.recurring_run_id}
        empty={
          <Empty icon={CalendarClock} title={w("recurringEmpty")} actions={create}>
            {w("recurringEmptyHelp")}
          </Empty>
        }
      />
    </Page>
  )
}

export function RecurringRunPage() {
  const w = useTexts(pipelineTexts)
  const c = useTexts(commonTexts)
  const { recurring: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { asked, shown } = listState(search, navigate, "-created_at")
  const found = useQuery({ ...recurringRunQuery(id), refetchInterval: 5000 })
  const runs = usePage(runsQuery({ where: { recurring_run_id: id }, ...asked }))
  const columns = useMemo(
    (): Column<NonNullable<typeof runs.data>["items"][number]>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "display_name",
        cell: (run) => (
          <Link
            to="/pipelines/runs/$run"
            params={{ run: run.run_id }}
            className="font-medium wrap-anywhere text-primary hover:underline"
          >
            {run.display_name}
          </Link>
        ),
      },
      { id: "state", header: w("state"), sort: "state", cell: (run) => <RunStateBadge state={run.state} /> },
      { id: "created", header: c("created"), sort: "created_at", cell: (run) => <Time at={run.created_at} /> },
      {
        id: "duration",
        header: w("duration"),
        cell: (run) => <Duration started={run.created_at} finished={run.finished_at} />,
      },
      actionsColumn(c("actions"), (run) => <RunActions run={run} />),
    ],
    [w, c],
  )
  const above = <Above to="/pipelines/recurring" word="recurringRuns" />
  if (failure(found))
    return (
      <Page title={w("recurring")} above={above}>
        <ProblemView error={found.error} retry={() => void found.refetch()} />
      </Page>
    )
  if (!found.data) return <Loading />
  const recurring = found.data
  const parameters = recurring.runtime_config?.parameters ?? {}
  return (
    <Page
      wide
      title={recurring.display_name}
      aside={<StatusBadge recurring={recurring} />}
      above={above}
      lead={
        <span>
          {scheduleText(recurring.trigger, w)}
          {recurring.description && ` · ${recurring.description}`}
        </span>
      }
      actions={<RecurringActions recurring={recurring} open />}
    >
      {recurring.error && (
        <p role="alert" className="rounded-md border border-failed/40 bg-failed/8 px-3 py-2 break-words">
          {recurring.error.message}
        </p>
      )}
      {Object.keys(parameters).length > 0 && (
        <Section title={w("parameters")}>
          <div className="max-w-3xl">
            <Values label={w("parameters")} values={parameters} />
          </div>
        </Section>
      )}
      <Section title={w("runs")}>
        <Listing label={w("runs")} found={runs} columns={columns} rowId={(run) => run.run_id} {...shown} />
      </Section>
    </Page>
  )
}

/** `0 30 9 * * *`, or "every 1h". */
function scheduleText({ cron_schedule: cron, periodic_schedule: periodic }: Trigger, w: Translate<PipelineWord>) {
  if (cron) return <code className="font-mono text-[13px]">{cron.cron}</code>
  return w("everyText", { time: duration(Number(periodic?.interval_second ?? 0) * 1000) })
}

function StatusBadge({ recurring }: { recurring: RecurringRun }) {
  const w = useTexts(pipelineTexts)
  const isEnabled = recurring.status === "ENABLED"
  const Icon = isEnabled ? CircleCheck : CirclePause
  return (
    <Badge tone={isEnabled ? "succeeded" : recurring.error ? "failed" : "waiting"}>
      <Icon aria-hidden />
      {w(isEnabled ? "enabled" : "disabled")}
    </Badge>
  )
}

function RecurringActions({ recurring, open }: { recurring: RecurringRun; open?: boolean }) {
  const w = useTexts(pipelineTexts)
  const navigate = useNavigate()
  const { recurring_run_id: id, display_name: name } = recurring
  const toggle =
    recurring.status === "ENABLED"
      ? { label: w("disable"), icon: <Pause />, run: () => act("recurringruns", id, "disable") }
      : { label: w("enable"), icon: <Play />, run: () => act("recurringruns", id, "enable") }
  const drop = {
    label: w("delete"),
    icon: <Trash2 />,
    danger: true,
    confirm: { title: w("deleteTitle", { name }), lead: w("deleteRecurringHelp") },
    run: async () => {
      await remove("recurringruns", id)
      note(w("deleted", { name }))
      if (open) void navigate({ to: "/pipelines/recurring" })
    },
  }
  const may = (action: string) => recurring.may?.includes(action)
  return (
    <Actions name={name} actions={[may("edit") ? toggle : undefined, may("delete") ? drop : undefined]} open={open} />
  )
}
