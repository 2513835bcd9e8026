import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { nodesQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Meter } from "@/components/meter"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { clusterTexts } from "@/i18n/cluster"
import { useTexts } from "@/i18n/translate"
import { amountText, resourceName, sumAmounts } from "@/lib/amounts"
import { Nodes } from "./nodes"
import { Groups } from "./pod-groups"
import { Queues } from "./queues"
import { VirtualClusters } from "./virtual-clusters"

const route = getRouteApi("/shell/cluster")
const TABS = ["clusters", "nodes", "queues", "groups"] as const

export function ClusterPage() {
  const w = useTexts(clusterTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const tab = TABS.find((each) => each === search.tab) ?? "clusters"
  const content = {
    clusters: <VirtualClusters />,
    nodes: <Nodes />,
    queues: <Queues />,
    groups: (
      <Groups
        queue={search.queue}
        phase={search.phase}
        choose={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
    ),
  }
  return (
    <Page title={w("title")} lead={w("lead")}>
      <Totals />
      <Tabs
        value={tab}
        onChange={(tab) => void navigate({ search: tab === "clusters" ? {} : { tab } })}
        inside="pt-4"
        tabs={TABS.map((id) => ({ id, label: w(id), content: content[id] }))}
      />
    </Page>
  )
}

/** The totals of all nodes. */
function Totals() {
  const w = useTexts(clusterTexts)
  const language = usePreferences((all) => all.language)
  const machines = useQuery(nodesQuery).data?.items
  if (!machines) return null
  const ready = machines.filter((each) => each.ready)
  const amounts = sumAmounts(machines.flatMap((each) => each.amounts)).filter(({ resource }) => SHOWN.test(resource))
  return (
    <dl className="grid gap-3 sm:grid-cols-2 lg:grid-cols-4">
      <div className="rounded-lg border bg-card p-4">
        <dt className="text-[13px] text-muted-foreground">{w("nodes")}</dt>
        <dd className="mt-1 text-lg font-semibold">
          {w("nodesReady", { ready: ready.length, total: machines.length })}
        </dd>
      </div>
      {amounts.map((amount) => {
        const name = amount.resource === "memory" ? w("memory") : resourceName(amount.resource, language)
        const text = w("usedOf", {
          used: amountText(amount.resource, amount.used),
          total: amountText(amount.resource, amount.allocatable),
        })
        return (
          <div key={amount.resource} className="rounded-lg border bg-card p-4">
            <dt className="text-[13px] text-muted-foreground">{name}</dt>
            <dd className="mt-1">
              <span className="text-lg font-semibold tabular-nums">{text}</span>
              <Meter className="mt-2" label={name} value={amount.used} max={amount.allocatable} text={text} />
            </dd>
          </div>
        )
      })}
    </dl>
  )
}

const SHOWN = /^(cpu|memory|pods)$|\//
