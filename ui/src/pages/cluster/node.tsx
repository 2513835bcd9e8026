import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { useMemo } from "react"
import type { Schema } from "@/api/client"
import { type Amount, machineQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { type Column, DataTable } from "@/components/data-table"
import { Loading } from "@/components/feedback"
import { Meter } from "@/components/meter"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { Time } from "@/components/time"
import { amountText, resourceName, skuText } from "@/lib/amounts"
import { clusterWords } from "@/words/cluster"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { MachineState } from "./nodes"
import { Pairs } from "./pairs"

type Pod = Schema<"PodThere">
type Condition = Schema<"NodeCondition">

const route = getRouteApi("/shell/cluster/nodes/$node")

export function NodePage() {
  const w = useWords(clusterWords)
  const language = usePreferences((all) => all.language)
  const c = useWords(commonWords)
  const { node } = route.useParams()
  const found = useQuery(machineQuery(node))
  const machine = found.data
  const amounts = useMemo(
    (): Column<Amount>[] => [
      { id: "resource", header: w("resource"), cell: ({ resource }) => resourceName(resource, language) },
      { id: "used", header: w("used"), cell: ({ resource, used }) => amountText(resource, used) },
      {
        id: "allocatable",
        header: w("allocatable"),
        cell: ({ resource, allocatable }) => amountText(resource, allocatable),
      },
      { id: "capacity", header: w("capacity"), cell: ({ resource, capacity }) => amountText(resource, capacity) },
      {
        id: "part",
        header: w("inUse"),
        className: "min-w-28",
        cell: ({ resource, used, allocatable }) => (
          <Meter
            label={resourceName(resource, language)}
            value={used}
            max={allocatable}
            text={w("usedOf", { used: amountText(resource, used), total: amountText(resource, allocatable) })}
          />
        ),
      },
    ],
    [w, language],
  )
  const conditions = useMemo(
    (): Column<Condition>[] => [
      { id: "type", header: w("condition"), cell: ({ type }) => type },
      {
        id: "status",
        header: w("status"),
        cell: (each) => <Badge tone={isGood(each) ? "succeeded" : "failed"}>{each.status}</Badge>,
      },
      { id: "reason", header: w("reason"), cell: ({ reason }) => reason || "–" },
      {
        id: "message",
        header: w("message"),
        cell: ({ message }) => <span className="text-[13px] text-muted-foreground">{message}</span>,
      },
      { id: "since", header: w("since"), cell: ({ since }) => <Time at={since} /> },
    ],
    [w],
  )
  const pods = useMemo(
    (): Column<Pod & { key: string }>[] => [
      {
        id: "name",
        header: c("name"),
        cell: ({ name }) =>
          name ? (
            <code className="font-mono text-[13px]">{name}</code>
          ) : (
            <span className="text-muted-foreground">{w("hidden")}</span>
          ),
      },
      {
        id: "run",
        header: w("run"),
        cell: ({ run_id, run_name }) =>
          run_id ? (
            <Link to="/runs/$run" params={{ run: run_id }} className="text-primary hover:underline">
              {run_name}
            </Link>
          ) : (
            "–"
          ),
      },
      { id: "owner", header: w("owner"), cell: ({ owner_name }) => owner_name ?? "–" },
      {
        id: "phase",
        header: w("state"),
        cell: ({ phase }) => (
          <Badge tone={phase === "Running" ? "running" : "waiting"}>
            {phase === "Running" ? w("phaseRunning") : phase === "Pending" ? w("starting") : phase}
          </Badge>
        ),
      },
      {
        id: "requests",
        header: w("requests"),
        cell: ({ requests }) => <span className="whitespace-nowrap">{skuText(requests, language) || "–"}</span>,
      },
      { id: "started", header: w("started"), cell: ({ started }) => <Time at={started} /> },
    ],
    [w, c, language],
  )
  const above = (
    <Link to="/cluster" search={{ tab: "nodes" }} className="hover:underline">
      {w("nodes")}
    </Link>
  )
  if (!machine)
    return (
      <Page title={node} above={above}>
        {found.isPending ? <Loading /> : <ProblemView error={found.error} retry={() => void found.refetch()} />}
      </Page>
    )
  return (
    <Page title={machine.name} above={above} aside={<MachineState machine={machine} />} lead={machine.system}>
      <DataTable label={w("resource")} columns={amounts} rows={machine.amounts} rowId={({ resource }) => resource} />
      <section className="flex flex-col gap-3">
        <h2>{w("podsThere")}</h2>
        {machine.there.length ? (
          <DataTable
            label={w("podsThere")}
            columns={pods}
            rows={machine.there.map((pod, index) => ({ ...pod, key: String(index) }))}
            rowId={({ key }) => key}
          />
        ) : (
          <p className="text-muted-foreground">{w("noPods")}</p>
        )}
      </section>
      <section className="flex flex-col gap-3">
        <h2>{w("conditions")}</h2>
        <DataTable label={w("conditions")} columns={conditions} rows={machine.conditions} rowId={({ type }) => type} />
      </section>
      <dl className="grid gap-4 sm:grid-cols-2">
        <div className="min-w-0">
          <dt className="mb-1 font-medium">{w("labels")}</dt>
          <dd>
            <Pairs pairs={machine.labels} none={c("none")} />
          </dd>
        </div>
        <div className="min-w-0">
          <dt className="mb-1 font-medium">{w("taints")}</dt>
          <dd>
            <Pairs pairs={Object.fromEntries(machine.taints.map((taint) => [taint, ""]))} none={c("none")} />
          </dd>
        </div>
      </dl>
    </Page>
  )
}

/** Ready is to be true; everything else that a node says of itself (pressure, say) is to be false. */
function isGood({ type, status }: Condition): boolean {
  return status === (type === "Ready" ? "True" : "False")
}
