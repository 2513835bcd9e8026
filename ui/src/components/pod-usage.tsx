/** The CPU and memory that Pods use or have used, over time. */
import { useQuery } from "@tanstack/react-query"
import { useMemo } from "react"
import { podUsageQuery, type UsageOf } from "@/api/pod-usage"
import { useIsDark } from "@/app/preferences"
import { metricTexts } from "@/i18n/metrics"
import { useTexts } from "@/i18n/translate"
import { usageCharts } from "@/lib/pod-usage"
import { Loading, ProblemView } from "./feedback"
import { MetricChart } from "./metric-chart"

/** `goes`: whether the Pods may still run. */
export function PodUsagePanel({ of, goes }: { of: UsageOf; goes: boolean }) {
  const w = useTexts(metricTexts)
  const dark = useIsDark()
  const found = useQuery(podUsageQuery(of, goes))
  const charts = useMemo(() => {
    const names = { cpu: w("cpu"), memory: w("memory"), request: w("request"), limit: w("limit") }
    return found.data ? usageCharts(found.data, names, dark) : []
  }, [found.data, dark, w])
  if (found.error) return <ProblemView error={found.error} retry={() => void found.refetch()} />
  if (!found.data) return <Loading />
  if (!charts.length)
    return (
      <p className="text-[13px] text-muted-foreground">
        {found.data.is_measured ? w("noUsage", { n: found.data.seconds }) : w("notMeasured")}
      </p>
    )
  return (
    <div className="flex flex-col gap-3">
      {charts.map((chart) => (
        <MetricChart
          key={chart.tag}
          chart={chart}
          axis="time"
          log={false}
          smoothed={false}
          group={JSON.stringify(of)}
          dark={dark}
          fromZero
        />
      ))}
    </div>
  )
}
