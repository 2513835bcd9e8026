/** How full the cluster is, at a glance: the virtual clusters that one may use, or else the machines themselves. */
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { clustersNowQuery, machinesQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Meter } from "@/components/meter"
import { added, amountText, resourceName } from "@/lib/amounts"
import { clusterWords } from "@/words/cluster"
import { useWords } from "@/words/words"

const MOST = 6

export function ClusterUsage() {
  const w = useWords(clusterWords)
  const language = usePreferences((all) => all.language)
  const clusters = useQuery(clustersNowQuery).data?.items
  const machines = useQuery({ ...machinesQuery, enabled: clusters?.length === 0 }).data?.items
  if (!clusters) return null
  const mine = clusters.filter((cluster) => cluster.usable).slice(0, MOST)
  const amounts = added((machines ?? []).flatMap((machine) => machine.amounts)).filter(({ resource }) =>
    /^(cpu|memory)$|\//.test(resource),
  )
  if (mine.length + amounts.length === 0) return null
  return (
    <section className="flex flex-col gap-3">
      <div className="flex items-center justify-between gap-2">
        <h2>{w("usage")}</h2>
        <Link to="/cluster" className="text-[13px] text-primary hover:underline">
          {w("toCluster")}
        </Link>
      </div>
      <ul className="grid gap-x-8 gap-y-3 rounded-lg border bg-card p-4 sm:grid-cols-2 lg:grid-cols-3">
        {mine.map((cluster) => (
          <li key={cluster.id}>
            <Full
              name={
                <Link
                  to="/cluster/virtual/$cluster"
                  params={{ cluster: cluster.id }}
                  className="truncate font-medium text-primary hover:underline"
                >
                  {cluster.name}
                </Link>
              }
              label={cluster.name}
              used={cluster.used}
              total={cluster.available}
              text={w("skusOf", { used: cluster.used, n: cluster.available })}
            />
          </li>
        ))}
        {mine.length === 0 &&
          amounts.map(({ resource, used, allocatable }) => {
            const label = resource === "memory" ? w("memory") : resourceName(resource, language)
            const text = w("usedOf", { used: amountText(resource, used), total: amountText(resource, allocatable) })
            return (
              <li key={resource}>
                <Full
                  name={<span className="font-medium">{label}</span>}
                  label={label}
                  used={used}
                  total={allocatable}
                  text={text}
                />
              </li>
            )
          })}
      </ul>
    </section>
  )
}

function Full({
  name,
  label,
  used,
  total,
  text,
}: {
  name: React.ReactNode
  label: string
  used: number
  total: number
  text: string
}) {
  return (
    <div className="flex min-w-0 flex-col gap-1.5">
      <div className="flex items-baseline justify-between gap-3">
        {name}
        <span className="text-[13px] whitespace-nowrap text-muted-foreground tabular-nums">{text}</span>
      </div>
      <Meter label={label} value={used} max={total} text={text} />
    </div>
  )
}
