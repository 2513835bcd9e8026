/** The history of a workflow's runs: the last ones at a glance, and the list of all. */

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Play } from "lucide-react"
import { useMemo, useState } from "react"
import { type Run, type RunState, runsQuery } from "@/api/runs"
import { versionsQuery } from "@/api/workflows"
import { StateBadge } from "@/components/badge"
import { Button } from "@/components/button"
import { CompareBar, compareColumn } from "@/components/compare"
import type { Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { ChoiceFilter, OwnerFilter, StateFilter } from "@/components/filters"
import { FilteredList } from "@/components/list-page"
import { usePage } from "@/components/listing"
import { TagFilter, TagList } from "@/components/tags"
import { Duration, Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { metricTexts } from "@/i18n/metrics"
import { runTexts } from "@/i18n/runs"
import { historyTexts, tagTexts } from "@/i18n/tags"
import { useTexts } from "@/i18n/translate"
import { workflowTexts } from "@/i18n/workflows"
import { classes } from "@/lib/classes"
import { listState } from "@/lib/pagination"
import { heights, lasted, medianDuration, successRate } from "@/lib/run-history"
import { duration } from "@/lib/times"

const route = getRouteApi("/shell/workflows/$workflow")
const STATES: RunState[] = ["waiting", "running", "succeeded", "failed", "stopped"]
const AT_A_GLANCE = 40

const COLORS: Record<RunState, string> = {
  waiting: "bg-waiting/50",
  running: "bg-fill-running",
  succeeded: "bg-fill-succeeded",
  failed: "bg-fill-failed",
  stopped: "bg-waiting",
}

/** A bar for each of the last runs; nothing while there are none. */
export function RecentRuns({ workflow }: { workflow: string }) {
  const h = useTexts(historyTexts)
  const w = useTexts(runTexts)
  const [now] = useState(Date.now)
  const found = useQuery(runsQuery({ workflow, limit: AT_A_GLANCE })).data
  if (!found?.items.length) return null
  const runs = found.items.toReversed()
  const high = heights(runs, now)
  const rate = successRate(runs)
  const median = medianDuration(runs)
  return (
    <section aria-label={h("recent")} className="flex flex-col gap-2 rounded-lg border bg-card px-4 py-3">
      <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1">
        <h2 className="text-sm font-semibold">{h("recent")}</h2>
        <p className="text-[13px] text-muted-foreground">{h("recentLead", { n: runs.length })}</p>
        <p className="ml-auto flex gap-4 text-[13px] text-muted-foreground tabular-nums">
          {rate !== undefined && <span>{h("rate", { n: rate })}</span>}
          {median !== undefined && <span>{h("median", { duration: duration(median) })}</span>}
        </p>
      </div>
      <ol className="flex h-14 items-end gap-0.5 sm:gap-1">
        {runs.map((run, index) => {
          const took = lasted(run, now)
          const label = h("one", {
            name: run.name,
            state: w(run.state),
            duration: took === undefined ? "–" : duration(took),
            version: run.version_name,
          })
          return (
            <li key={run.id} className="flex h-full min-w-1 flex-1 basis-0 sm:max-w-5">
              <Link
                to="/runs/$run"
                params={{ run: run.id }}
                aria-label={label}
                title={label}
                className="flex h-full w-full items-end rounded-sm hover:bg-muted"
              >
                <span
                  data-state={run.state}
                  className={classes("w-full rounded-sm", COLORS[run.state])}
                  style={{ height: `${100 * (high[index] ?? 0)}%` }}
                />
              </Link>
            </li>
          )
        })}
      </ol>
    </section>
  )
}

export function RunHistory({ workflow }: { workflow: string }) {
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const m = useTexts(metricTexts)
  const h = useTexts(historyTexts)
  const t = useTexts(tagTexts)
  const f = useTexts(workflowTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const list = listState(search, navigate, "-created")
  const { filter, asked } = list
  const state = STATES.find((each) => each === search.state)
  const versions = useQuery(versionsQuery(workflow, { limit: 200 })).data?.items ?? []
  const found = usePage(
    runsQuery({
      workflow,
      q: search.q,
      owner: search.owner,
      version: search.version,
      state: state && [state],
      tag: search.tag ? [search.tag] : undefined,
      ...asked,
    }),
  )
  // biome-ignore lint/correctness/useExhaustiveDependencies: `filter` only changes the address.
  const columns = useMemo(
    (): Column<Run>[] => [
      compareColumn(m, (run) => ({ subject: `run:${run.id}`, name: run.name })),
      {
        id: "name",
        header: c("name"),
        sort: "name",
        className: "min-w-44",
        cell: (run) => (
          <Link
            to="/runs/$run"
            params={{ run: run.id }}
            className="font-medium wrap-anywhere text-primary hover:underline"
          >
            {run.name}
          </Link>
        ),
      },
      {
        id: "state",
        header: w("state"),
        sort: "state",
        cell: (run) => (
          <StateBadge
            state={run.stopping && (run.state === "running" || run.state === "waiting") ? "stopping" : run.state}
          />
        ),
      },
      {
        id: "version",
        header: w("version"),
        sort: "version",
        cell: (run) => (
          <Link
            to="/workflows/$workflow/versions/$version"
            params={{ workflow, version: String(run.version_number) }}
            className="hover:underline"
          >
            {run.version_name}
          </Link>
        ),
      },
      {
        id: "tags",
        header: t("tags"),
        cell: (run) => <TagList tags={run.tags} choose={(tag) => filter({ tag })} />,
      },
      { id: "owner", header: c("owner"), sort: "owner", cell: (run) => run.owner_name },
      { id: "created", header: c("created"), sort: "created", cell: (run) => <Time at={run.created} /> },
      {
        id: "duration",
        header: w("duration"),
        cell: (run) => <Duration started={run.started} finished={run.finished} />,
      },
    ],
    [w, c, m, t, workflow],
  )
  return (
    <div className="flex flex-col gap-3">
      <FilteredList
        list={list}
        search={w("search")}
        filters={
          <>
            <StateFilter states={STATES} w={w} value={state} onChange={(state) => filter({ state })} />
            <ChoiceFilter
              label={f("version")}
              all={h("all")}
              choices={versions.map((each) => ({ value: String(each.number), label: each.name }))}
              value={search.version}
              onChange={(version) => filter({ version })}
              className="w-auto max-w-56"
            />
            <TagFilter workflow={workflow} value={search.tag} onChange={(tag) => filter({ tag })} />
            <OwnerFilter value={search.owner} onChange={(owner) => filter({ owner })} />
          </>
        }
        label={h("runs")}
        found={found}
        columns={columns}
        rowId={(run) => run.id}
        empty={
          <Empty
            icon={Play}
            title={h("none")}
            actions={
              versions.length > 0 && (
                <Button asChild look="primary">
                  <Link to="/runs/new" search={{ workflow }}>
                    <Play />
                    {f("run")}
                  </Link>
                </Button>
              )
            }
          >
            {h("noneHelp")}
          </Empty>
        }
      />
      <CompareBar />
    </div>
  )
}
