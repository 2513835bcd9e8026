import { expect, it } from "vitest"
import type { PodUsage } from "@/api/pod-usage"
import { usageCharts } from "@/lib/pod-usage"

const NAMES = { cpu: "CPU", memory: "Memory", request: "request", limit: "limit" }
const pod = (name: string, more: Partial<PodUsage["pods"][number]> = {}): PodUsage["pods"][number] => ({
  pod: name,
  requests: {},
  limits: {},
  times: [10, 15],
  cpu: [0.5, 1],
  memory: [1048576, 2097152],
  ...more,
})
const drawn = (...pods: PodUsage["pods"]) => usageCharts({ is_measured: true, seconds: 5, pods }, NAMES, false)

it("draws cores and MiB, and requests and limits from the first to the last time", () => {
  const [cpu, memory] = drawn(pod("a", { requests: { cpu: 1 }, limits: { memory: 4194304 } }))
  expect(cpu?.curves.map(({ line, x, y }) => [line.label, line.dash, x, y])).toEqual([
    ["a", false, [10, 15], [0.5, 1]],
    ["request: a", true, [10, 15], [1, 1]],
  ])
  expect(memory?.curves.map(({ line, y }) => [line.label, y])).toEqual([
    ["a", [1, 2]],
    ["limit: a", [4, 4]],
  ])
})

it("leaves the lines out if there are many Pods", () => {
  const [cpu] = drawn(...["a", "b", "c", "d", "e"].map((name) => pod(name, { limits: { cpu: 1 } })))
  expect(cpu?.curves).toHaveLength(5)
})

it("draws nothing for Pods that were not measured", () => {
  expect(drawn()).toEqual([])
  expect(drawn(pod("a", { times: [], cpu: [], memory: [] }))).toEqual([])
})
