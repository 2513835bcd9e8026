/** The virtual clusters, and the page of one of them. */

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Layers, Pencil } from "lucide-react"
import { type Schema, useMe } from "@/api/client"
import { clusterQuery, clustersNowQuery, clusterUsageQuery } from "@/api/cluster"
import { usePreferences } from "@/app/preferences"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Select } from "@/components/form"
import { usePage } from "@/components/listing"
import { Meter } from "@/components/meter"
import { Page } from "@/components/page"
import { UsageChart } from "@/components/usage-chart"
import { clusterTexts } from "@/i18n/cluster"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { skuText } from "@/lib/amounts"
import { Pairs } from "./nodes"

export function VirtualClusters() {
  const w = useTexts(clusterTexts)
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

const route = getRouteApi("/shell/cluster/virtual/$cluster")
const RANGES: Record<string, number> = { "1h": 1, "6h": 6, "24h": 24, "3d": 72, "7d": 168 }
const USUAL = "24h"

export function VirtualClusterPage() {
  const w = useTexts(clusterTexts)
  const language = usePreferences((all) => all.language)
  const c = useTexts(commonTexts)
  const me = useMe()
  const { cluster: id } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const range = search.range && search.range in RANGES ? search.range : USUAL
  const hours = RANGES[range] ?? 24
  const found = useQuery(clusterQuery(id))
  const usage = usePage(clusterUsageQuery(id, hours))
  const cluster = found.data
  if (!cluster)
    return (
      <Page title={w("clusters")} above={<Above />}>
        {found.isPending ? <Loading /> : <ProblemView error={found.error} retry={() => void found.refetch()} />}
      </Page>
    )
  const text = w("usedOf", { used: cluster.used, total: cluster.available })
  return (
    <Page
      title={cluster.name}
      above={<Above />}
      lead={cluster.description}
      aside={
        <Badge tone={cluster.usable ? "succeeded" : "warning"}>{cluster.usable ? w("usable") : w("notUsable")}</Badge>
      }
      actions={
        me.user.role === "admin" && (
          <Button asChild>
            <Link to="/admin" search={{ tab: "clusters", open: cluster.id }}>
              <Pencil />
              {c("edit")}
            </Link>
          </Button>
        )
      }
    >
      <div className="grid gap-3 lg:grid-cols-3">
        <section className="rounded-lg border bg-card p-4">
          <h2>{w("inUse")}</h2>
          <p className="mt-1 text-2xl font-semibold tabular-nums">{text}</p>
          <Meter className="mt-2" label={w("inUse")} value={cluster.used} max={cluster.available} text={text} />
          {cluster.total !== null && cluster.total > cluster.available && (
            <p className="mt-2 text-[13px] text-warning">
              {w("lessThanTotal", { available: cluster.available, total: cluster.total })}
            </p>
          )}
        </section>
        <section className="rounded-lg border bg-card p-4 lg:col-span-2">
          <dl className="grid gap-x-6 gap-y-2 sm:grid-cols-2">
            <Fact name={w("sku")}>{skuText(cluster.sku, language)}</Fact>
            <Fact name={w("total")}>{cluster.total ?? w("unlimited")}</Fact>
            <Fact name={w("who")}>{cluster.team_name ? w("forTeam", { name: cluster.team_name }) : w("forAll")}</Fact>
            <Fact name={w("nodeSelector")}>
              <Pairs pairs={cluster.node_selector} none={w("anyNode")} />
            </Fact>
            {cluster.tolerations.length > 0 && <Fact name={w("tolerations")}>{cluster.tolerations.join(", ")}</Fact>}
          </dl>
        </section>
      </div>
      <section className="flex flex-col gap-3 rounded-lg border bg-card p-4">
        <div className="flex flex-wrap items-center justify-between gap-2">
          <h2>{w("overTime")}</h2>
          <Select
            aria-label={w("range")}
            className="w-auto"
            value={range}
            onChange={(event) =>
              void navigate({
                search: { range: event.target.value === USUAL ? undefined : event.target.value },
                replace: true,
              })
            }
          >
            {Object.entries(RANGES).map(([each, hours]) => (
              <option key={each} value={each}>
                {hours > 48 ? w("days", { n: hours / 24 }) : w("hours", { n: hours })}
              </option>
            ))}
          </Select>
        </div>
        <ProblemView error={usage.error} retry={() => void usage.refetch()} />
        {usage.data && (
          <UsageChart
            usage={usage.data}
            label={w("chartLabel", {
              name: cluster.name,
              used: cluster.used,
              peak: Math.max(0, ...usage.data.points.map((point) => point.peak)),
              total: cluster.available,
            })}
          />
        )}
        <p className="text-[13px] text-muted-foreground">{w("gaps")}</p>
      </section>
      <div className="grid gap-3 lg:grid-cols-2">
        <Uses title={w("uses")} uses={cluster.uses} none={w("nobodyUses")} />
        {cluster.waiting.length > 0 && <Uses title={w("waitingFor")} uses={cluster.waiting} none="" />}
      </div>
    </Page>
  )
}

function Above() {
  const w = useTexts(clusterTexts)
  return (
    <Link to="/cluster" className="hover:underline">
      {w("title")}
    </Link>
  )
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-[13px] text-muted-foreground">{name}</dt>
      <dd className="break-words">{children}</dd>
    </div>
  )
}

function Uses({ title, uses, none }: { title: string; uses: Schema<"SkuUse">[]; none: string }) {
  const w = useTexts(clusterTexts)
  return (
    <section className="flex min-w-0 flex-col gap-3">
      <h2>{title}</h2>
      {uses.length === 0 ? (
        <p className="text-muted-foreground">{none}</p>
      ) : (
        <ul className="flex flex-col divide-y rounded-lg border bg-card">
          {uses.map((use) => (
            <li key={`${use.run_id} ${use.node}`} className="flex flex-wrap items-center gap-x-3 px-4 py-2.5">
              <Link
                to="/runs/$run"
                params={{ run: use.run_id }}
                search={{ node: use.node }}
                className="min-w-0 truncate font-medium text-primary hover:underline"
              >
                {use.run_name}
              </Link>
              <span className="text-[13px] text-muted-foreground">{use.node}</span>
              <span className="ml-auto text-[13px] text-muted-foreground">{use.owner_name}</span>
              <Badge>{w("skus", { n: use.skus })}</Badge>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
