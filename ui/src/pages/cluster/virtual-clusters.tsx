import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Layers } from "lucide-react"
import { clustersNowQuery } from "@/api/cluster"
import { useMe } from "@/api/session"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { Empty, Loading } from "@/components/feedback"
import { Meter } from "@/components/meter"
import { ProblemView } from "@/components/problem-view"
import { skuText } from "@/lib/amounts"
import { clusterWords } from "@/words/cluster"
import { useWords } from "@/words/words"

export function VirtualClusters() {
  const w = useWords(clusterWords)
  const language = usePreferences((all) => all.language)
  const me = useMe()
  const found = useQuery(clustersNowQuery)
  const create = me.user.role === "admin" && (
    <Button asChild look="primary">
      <Link to="/admin" search={{ tab: "clusters", open: "new" }}>
        {w("create")}
      </Link>
    </Button>
  )
  return (
    <div className="flex flex-col gap-3">
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {found.data &&
        (found.data.items.length ? (
          <ul className="grid gap-3 sm:grid-cols-2 lg:grid-cols-3">
            {found.data.items.map((cluster) => {
              const text = w("usedOf", { used: cluster.used, total: cluster.available })
              return (
                <li key={cluster.id}>
                  <Link
                    to="/cluster/virtual/$cluster"
                    params={{ cluster: cluster.id }}
                    className="flex h-full flex-col gap-2 rounded-lg border bg-card p-4 hover:border-ring"
                  >
                    <span className="flex items-center justify-between gap-2">
                      <span className="truncate font-medium">{cluster.name}</span>
                      <Badge tone={cluster.usable ? "plain" : "warning"}>
                        {cluster.team_name ? w("forTeam", { name: cluster.team_name }) : w("forAll")}
                      </Badge>
                    </span>
                    <span className="text-[13px] text-muted-foreground">{skuText(cluster.sku, language)}</span>
                    <span className="mt-auto flex items-baseline justify-between gap-2 pt-1">
                      <span className="text-[13px] text-muted-foreground">{w("inUse")}</span>
                      <span className="font-semibold tabular-nums">{text}</span>
                    </span>
                    <Meter label={cluster.name} value={cluster.used} max={cluster.available} text={text} />
                    {cluster.total !== null && cluster.total > cluster.available && (
                      <span className="text-[13px] text-warning">
                        {w("lessThanTotal", { available: cluster.available, total: cluster.total })}
                      </span>
                    )}
                  </Link>
                </li>
              )
            })}
          </ul>
        ) : (
          <Empty icon={Layers} title={w("noClusters")} actions={create}>
            {w("noClustersHelp")}
          </Empty>
        ))}
    </div>
  )
}
