import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { ListOrdered } from "lucide-react"
import { useMemo } from "react"
import { type Queue, queuesQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { type Column, DataTable } from "@/components/data-table"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { clusterTexts } from "@/i18n/cluster"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { skuText } from "@/lib/amounts"

const STATES: Record<string, keyof typeof clusterTexts> = {
  Open: "openOpen",
  Closed: "openClosed",
  Closing: "openClosing",
  Unknown: "openUnknown",
}

export function Queues() {
  const w = useTexts(clusterTexts)
  const c = useTexts(commonTexts)
  const found = useQuery(queuesQuery)
  const columns = useMemo(
    (): Column<Queue>[] => [
      {
        id: "name",
        header: c("name"),
        cell: (queue) =>
          queue.cluster_id ? (
            <Link
              to="/cluster/virtual/$cluster"
              params={{ cluster: queue.cluster_id }}
              className="font-medium text-primary hover:underline"
            >
              {queue.cluster_name ?? queue.name}
            </Link>
          ) : (
            <span className="font-medium">{queue.name}</span>
          ),
      },
      {
        id: "state",
        header: w("state"),
        cell: ({ state }) => (
          <Badge tone={state === "Open" ? "succeeded" : "warning"}>{w(STATES[state] ?? "openUnknown")}</Badge>
        ),
      },
      { id: "allocated", header: w("allocated"), cell: ({ allocated }) => <Amounts amounts={allocated} none="0" /> },
      {
        id: "limit",
        header: w("limit"),
        cell: ({ capability }) => <Amounts amounts={capability} none={w("noLimit")} />,
      },
      { id: "weight", header: w("weight"), cell: ({ weight }) => weight },
      {
        id: "groups",
        header: w("groups"),
        cell: (queue) => {
          const waiting = (queue.groups.pending ?? 0) + (queue.groups.inqueue ?? 0) + (queue.groups.unknown ?? 0)
          const running = queue.groups.running ?? 0
          return (
            <Link
              to="/cluster"
              search={{ tab: "groups", queue: queue.name }}
              className="inline-flex gap-1 hover:underline"
            >
              <Badge tone={waiting ? "warning" : "plain"}>
                {w("waitingGroups")} {waiting}
              </Badge>
              <Badge tone={running ? "running" : "plain"}>
                {w("runningGroups")} {running}
              </Badge>
            </Link>
          )
        },
      },
    ],
    [w, c],
  )
  return (
    <div className="flex flex-col gap-3">
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {found.data &&
        (found.data.items.length ? (
          <DataTable label={w("queues")} columns={columns} rows={found.data.items} rowId={(queue) => queue.name} />
        ) : (
          <Empty icon={ListOrdered} title={w("noQueues")}>
            {w("noQueuesHelp")}
          </Empty>
        ))}
    </div>
  )
}

function Amounts({ amounts, none }: { amounts: Record<string, string>; none: string }) {
  const language = usePreferences((all) => all.language)
  const { pods, ...rest } = amounts
  return <span className="text-[13px] whitespace-nowrap">{skuText(rest, language) || none}</span>
}
