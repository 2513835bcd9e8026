/** The nodes of the cluster, and the page of one node. */

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Server } from "lucide-react"
import { useMemo } from "react"
import type { Schema } from "@/api/client"
import { type Amount, type ClusterNode, nodeQuery, nodesQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { type Column, DataTable } from "@/components/data-table"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Meter } from "@/components/meter"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { clusterTexts } from "@/i18n/cluster"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { amountText, resourceName, skuText } from "@/lib/amounts"

/** Labels or selectors as badges. */
export function Pairs({ pairs, none }: { pairs: Record<string, string>; none: string }) {
  const all = Object.entries(pairs)
  if (!all.length) return <span className="text-muted-foreground">{none}</span>
  return (
    <span className="flex flex-wrap gap-1">
      {all.map(([name, value]) => (
        <Badge key={name} className="rounded font-mono font-normal whitespace-normal break-all">
          {value ? `${name}=${value}` : name}
        </Badge>
      ))}
    </span>
  )
}

export function Nodes() {
  const w = useTexts(clusterTexts)
  const language = usePreferences((all) => all.language)
  const c = useTexts(commonTexts)
  const found = useQuery(nodesQuery)
  const machines = found.data?.items
  const others = useMemo(
    () =>
      [...new Set((machines ?? []).flatMap((each) => each.amounts.map(({ resource }) => resource)))].filter((name) =>
        name.includes("/"),
      ),
    [machines],
  )
  const columns = useMemo((): Column<ClusterNode>[] => {
    const amount = (resource: string, header: string): Column<ClusterNode> => ({
      id: resource,
      header,
      className: "min-w-32",
      cell: (machine) => (
        <Amounts
          amount={machine.amounts.find((each) => each.resource === resource)}
          label={`${machine.name} ${header}`}
        />
      ),
    })
    return [
      {
        id: "name",
        header: c("name"),
        cell: (machine) => (
          <Link
            to="/cluster/nodes/$node"
            params={{ node: machine.name }}
            className="font-medium text-primary hover:underline"
          >
            {machine.name}
          </Link>
        ),
      },
      { id: "state", header: w("state"), cell: (machine) => <MachineState machine={machine} /> },
      amount("cpu", w("cpu")),
      amount("memory", w("memory")),
      ...others.map((name) => amount(name, resourceName(name, language))),
      { id: "pods", header: w("pods"), cell: (machine) => machine.pods },
      { id: "clusters", header: w("partOf"), cell: (machine) => machine.clusters.join(", ") || "–" },
    ]
  }, [w, c, others, language])
  return (
    <div className="flex flex-col gap-3">
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {machines &&
        (machines.length ? (
          <DataTable label={w("nodes")} columns={columns} rows={machines} rowId={(machine) => machine.name} />
        ) : (
          <Empty icon={Server} title={w("noNodes")}>
            {w("noNodesHelp")}
          </Empty>
        ))}
    </div>
  )
}

export function MachineState({ machine }: { machine: ClusterNode }) {
  const w = useTexts(clusterTexts)
  return (
    <span className="inline-flex flex-wrap gap-1">
      <Badge tone={machine.ready ? "succeeded" : "failed"}>{machine.ready ? w("ready") : w("notReady")}</Badge>
      {machine.unschedulable && <Badge tone="warning">{w("closed")}</Badge>}
    </span>
  )
}

function Amounts({ amount, label }: { amount?: Amount; label: string }) {
  const w = useTexts(clusterTexts)
  if (!amount) return <>–</>
  const text = w("usedOf", {
    used: amountText(amount.resource, amount.used),
    total: amountText(amount.resource, amount.allocatable),
  })
  return (
    <div className="flex flex-col gap-1">
      <span className="text-[13px] whitespace-nowrap tabular-nums">{text}</span>
      <Meter label={label} value={amount.used} max={amount.allocatable} text={text} />
    </div>
  )
}

type Pod = Schema<"PodThere">
type Condition = Schema<"NodeCondition">

const route = getRouteApi("/shell/cluster/nodes/$node")

export function NodePage() {
  const w = useTexts(clusterTexts)
  const language = usePreferences((all) => all.language)
  const c = useTexts(commonTexts)
  const { node } = route.useParams()
  const found = useQuery(nodeQuery(node))
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

/** Ready should be true; all other conditions (such as pressure) should be false. */
function isGood({ type, status }: Condition): boolean {
  return status === (type === "Ready" ? "True" : "False")
}
