/** What Pods use, as charts: a curve for each Pod, and dashed lines for what it may use. */
import type { PodUsage } from "@/api/pod-usage"
import { type Chart, type Curve, colorOf } from "./metric-curves"

const MEBIBYTE = 1024 * 1024
/** Lines of requests and limits are drawn for so many Pods at most. */
const MOST_WITH_LINES = 4

export interface UsageNames {
  cpu: string
  memory: string
  request: string
  limit: string
}

export function usageCharts({ pods }: PodUsage, names: UsageNames, dark: boolean): Chart[] {
  const measured = pods.filter((pod) => pod.times.length)
  const chart = (tag: string, resource: "cpu" | "memory", unit: number): Chart => ({
    tag,
    curves: measured.flatMap((pod, place) => {
      const color = colorOf(place, dark)
      const own = curve(
        pod.pod,
        color,
        false,
        pod.times,
        pod[resource].map((value) => value / unit),
      )
      if (measured.length > MOST_WITH_LINES) return [own]
      const [first, last] = [pod.times[0] as number, pod.times.at(-1) as number]
      const bounds = [
        [names.request, pod.requests[resource]],
        [names.limit, pod.limits[resource]],
      ] as const
      const lines = bounds.flatMap(([name, amount]) =>
        amount === undefined
          ? []
          : [curve(`${name}: ${pod.pod}`, color, true, [first, last], [amount / unit, amount / unit])],
      )
      return [own, ...lines]
    }),
  })
  return measured.length ? [chart(names.cpu, "cpu", 1), chart(names.memory, "memory", MEBIBYTE)] : []
}

function curve(label: string, color: string, dash: boolean, x: number[], y: number[]): Curve {
  const line = { key: label, label, color, dash }
  return { line, x, y, smooth: y, odd: [], last: y.at(-1) ?? 0, count: x.length, shown: x.length }
}
