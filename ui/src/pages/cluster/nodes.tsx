import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Server } from "lucide-react"
import { useMemo } from "react"
import { type Amount, type Machine, machinesQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { type Column, DataTable } from "@/components/data-table"
import { Empty, Loading } from "@/components/feedback"
import { Meter } from "@/components/meter"
import { ProblemView } from "@/components/problem-view"
import { amountText, resourceName } from "@/lib/amounts"
import { clusterWords } from "@/words/cluster"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

export function Nodes() {
  const w = useWords(clusterWords)
  const language = usePreferences((all) => all.language)
  const c = useWords(commonWords)
  const found = useQuery(machinesQuery)
  const machines = found.data?.items
  const others = useMemo(
    () =>
      [...new Set((machines ?? []).flatMap((each) => each.amounts.map(({ resource }) => resource)))].filter((name) =>
        name.includes("/"),
      ),
    [machines],
  )
  const columns = useMemo((): Column<Machine>[] => {
    const amount = (resource: string, header: string): Column<Machine> => ({
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

export function MachineState({ machine }: { machine: Machine }) {
  const w = useWords(clusterWords)
  return (
    <span className="inline-flex flex-wrap gap-1">
      <Badge tone={machine.ready ? "succeeded" : "failed"}>{machine.ready ? w("ready") : w("notReady")}</Badge>
      {machine.unschedulable && <Badge tone="warning">{w("closed")}</Badge>}
    </span>
  )
}

function Amounts({ amount, label }: { amount?: Amount; label: string }) {
  const w = useWords(clusterWords)
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
