import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import {
  CalendarClock,
  CircleCheck,
  CircleOff,
  CirclePause,
  Pause,
  Play,
  Plus,
  Trash2,
  TriangleAlert,
  Zap,
} from "lucide-react"
import { useMemo } from "react"
import { act, remove } from "@/api/pipelines"
import {
  changed,
  deleteSchedule,
  pauseSchedule,
  resumeSchedule,
  runSchedule,
  type Schedule,
  type ScheduleState,
  schedulesQuery,
} from "@/api/schedules"
import { type Action, Actions } from "@/components/actions"
import { Badge, type Tone } from "@/components/badge"
import { Button } from "@/components/button"
import { actionsColumn, type Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { ChoiceFilter, StateFilter } from "@/components/filters"
import { FilteredList } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { Menu } from "@/components/menu"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { note } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { scheduleTexts } from "@/i18n/schedules"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"

const route = getRouteApi("/shell/schedules")
const KINDS: Schedule["kind"][] = ["cron", "pipeline"]
const STATES: ScheduleState[] = ["active", "paused", "failed", "ended"]

export function ScheduleList() {
  const w = useTexts(scheduleTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created")
  const { filter, asked } = list
  const kind = KINDS.find((each) => each === search.kind)
  const state = STATES.find((each) => each === search.state)
  const found = usePage(schedulesQuery({ q: search.q, kind, state: state && [state], ...asked }))
  const columns = useMemo(
    (): Column<Schedule>[] => [
      {
        id: "name",
        header: c("name"),
        sort: "name",
        cell: (schedule) => <ScheduleLink schedule={schedule} />,
      },
      { id: "state", header: w("state"), cell: (schedule) => <ScheduleBadge schedule={schedule} /> },
      {
        id: "kind",
        header: w("kind"),
        cell: ({ kind, source }) => (
          <>
            {w(kind)} {source && <span className="text-muted-foreground">{source}</span>}
          </>
        ),
      },
      { id: "schedule", header: w("schedule"), cell: (schedule) => <Times schedule={schedule} /> },
      {
        id: "next",
        header: w("next"),
        sort: "next",
        cell: ({ next, state }) => (next[0] && state !== "paused" ? <Time at={next[0]} /> : "–"),
      },
      {
        id: "last",
        header: w("last"),
        cell: ({ last, active }) => (
          <>
            <Time at={last} /> {active > 0 && <span className="text-running">{w("running", { n: active })}</span>}
          </>
        ),
      },
      { id: "owner", header: c("owner"), cell: (each) => each.owner_name ?? each.team_name ?? each.namespace },
      actionsColumn(c("actions"), (schedule) => <ScheduleActions schedule={schedule} />),
    ],
    [w, c],
  )
  return (
    <Page title={w("title")} lead={w("lead")} actions={<Create />} wide>
      <FilteredList
        list={list}
        search={w("search")}
        filters={
          <>
            <ChoiceFilter
              label={w("kind")}
              all={w("allKinds")}
              choices={KINDS.map((value) => ({ value, label: w(value) }))}
              value={kind}
              onChange={(kind) => filter({ kind })}
            />
            <StateFilter states={STATES} w={w} value={state} onChange={(state) => filter({ state })} />
          </>
        }
        label={w("title")}
        found={found}
        columns={columns}
        rowId={({ id }) => id}
        empty={
          <Empty icon={CalendarClock} title={w("empty")} actions={<Create />}>
            {w("emptyHelp")}
          </Empty>
        }
      />
    </Page>
  )
}

function Create() {
  const w = useTexts(scheduleTexts)
  const navigate = useNavigate()
  return (
    <Menu
      items={[
        { label: w("createCron"), onSelect: () => void navigate({ to: "/schedules/new" }) },
        {
          label: w("createPipeline"),
          onSelect: () => void navigate({ to: "/pipelines/runs/new", search: { recurring: "true" } }),
        },
      ]}
    >
      <Button look="primary">
        <Plus />
        {w("create")}
      </Button>
    </Menu>
  )
}

function ScheduleLink({ schedule: { kind, id, namespace, name } }: { schedule: Schedule }) {
  const look = "font-medium wrap-anywhere text-primary hover:underline"
  return kind === "cron" ? (
    <Link to="/schedules/$namespace/$name" params={{ namespace, name }} className={look}>
      {name}
    </Link>
  ) : (
    <Link to="/pipelines/recurring/$recurring" params={{ recurring: id }} className={look}>
      {name}
    </Link>
  )
}

export function Times({ schedule: { schedules, timezone } }: { schedule: Schedule }) {
  return (
    <span className="flex flex-wrap gap-x-2">
      {schedules.map((each) => (
        <code key={each} className="font-mono text-[13px] whitespace-nowrap">
          {each}
        </code>
      ))}
      {timezone && <span className="text-muted-foreground">{timezone}</span>}
    </span>
  )
}

const LOOKS: Record<ScheduleState, { tone: Tone; icon: typeof Zap }> = {
  active: { tone: "succeeded", icon: CircleCheck },
  paused: { tone: "waiting", icon: CirclePause },
  ended: { tone: "waiting", icon: CircleOff },
  failed: { tone: "failed", icon: TriangleAlert },
}

export function ScheduleBadge({ schedule: { state, message } }: { schedule: Schedule }) {
  const w = useTexts(scheduleTexts)
  const { tone, icon: Icon } = LOOKS[state]
  return (
    <span title={message || undefined}>
      <Badge tone={tone}>
        <Icon aria-hidden />
        {w(state)}
      </Badge>
    </span>
  )
}

export function ScheduleActions({ schedule, open }: { schedule: Schedule; open?: boolean }) {
  const w = useTexts(scheduleTexts)
  const navigate = useNavigate()
  const { kind, id, namespace, name } = schedule
  const place = { namespace, name }
  const isCron = kind === "cron"
  const actions: Record<string, Action> = {
    run: {
      label: w("run"),
      icon: <Zap />,
      run: async () => {
        const made = await runSchedule(place)
        note(w("started", { name: made.name }))
      },
    },
    pause: {
      label: w("pause"),
      icon: <Pause />,
      run: () => (isCron ? pauseSchedule(place) : changed(act("recurringruns", id, "disable"))),
    },
    resume: {
      label: w("resume"),
      icon: <Play />,
      primary: true,
      run: () => (isCron ? resumeSchedule(place) : changed(act("recurringruns", id, "enable"))),
    },
    delete: {
      label: w("delete"),
      icon: <Trash2 />,
      danger: true,
      confirm: { title: w("deleteTitle", { name }), lead: w(isCron ? "deleteHelp" : "deletePipelineHelp") },
      run: async () => {
        await (isCron ? deleteSchedule(place) : changed(remove("recurringruns", id)))
        note(w("deleted", { name }))
        if (open) void navigate({ to: "/schedules" })
      },
    },
  }
  return <Actions name={name} actions={schedule.may.map((action) => actions[action])} open={open} />
}
