/** Metrics of runs, nodes and jobs: loaded as a whole, then what is new while something runs. */
import { queryOptions } from "@tanstack/react-query"
import { create } from "zustand"
import { type Metrics, merge } from "@/lib/metric-curves"
import { api, data, queryClient } from "./client"
import type { JobPlace } from "./jobs"

export const MOST_COMPARED = 20
const POLL_MILLISECONDS = 3000

/** What has metrics. */
export type MetricsOf =
  | { run: string; node?: string }
  | { job: JobPlace }
  | {
      /** `run:ID`, `node:RUN/NODE` or `job:NAMESPACE/KIND/NAME` */
      compare: string[]
    }

export const metricsQuery = (of: MetricsOf, pattern: string) => {
  const queryKey = ["metrics", of, pattern]
  return queryOptions({
    queryKey,
    queryFn: async ({ signal }): Promise<Metrics> => {
      const before = queryClient.getQueryData<Metrics>(queryKey)
      return merge(before, await load(of, { ...asked(pattern), ...(before ? { since: before.cursor } : {}) }, signal))
    },
    refetchInterval: (query) => (query.state.data?.live ? POLL_MILLISECONDS : false),
    structuralSharing: false,
  })
}

async function load(of: MetricsOf, query: Record<string, string>, signal: AbortSignal): Promise<Metrics> {
  if ("compare" in of)
    return api.GET("/api/v1/metrics", { params: { query: { ...query, of: of.compare } }, signal }).then(metrics)
  if ("job" in of)
    return api
      .GET("/api/v1/jobs/{namespace}/{kind}/{name}/metrics", { params: { path: of.job, query }, signal })
      .then(metrics)
  const { run, node } = of
  if (node === undefined)
    return api.GET("/api/v1/runs/{run}/metrics", { params: { path: { run }, query }, signal }).then(metrics)
  return api
    .GET("/api/v1/runs/{run}/nodes/{node}/metrics", { params: { path: { run, node }, query }, signal })
    .then(metrics)
}

function metrics(answer: { data?: unknown }): Metrics {
  return data(answer) as Metrics
}

/** The address of all stored points as a table. */
export function csvAddress(of: MetricsOf, pattern: string): string {
  const query = new URLSearchParams({ ...asked(pattern), format: "csv" })
  if ("compare" in of) {
    for (const each of of.compare) query.append("of", each)
    return `/api/v1/metrics?${query}`
  }
  const parts =
    "job" in of
      ? ["jobs", of.job.namespace, of.job.kind, of.job.name]
      : ["runs", of.run, ...(of.node === undefined ? [] : ["nodes", of.node])]
  return `/api/v1/${parts.map(encodeURIComponent).join("/")}/metrics?${query}`
}

function asked(pattern: string): Record<string, string> {
  return pattern ? { pattern } : {}
}

export function jobSubject({ namespace, kind, name }: JobPlace): string {
  return `job:${namespace}/${kind}/${name}`
}

/** For the address of the comparison: names of nodes may contain commas. */
export function joinSubjects(subjects: Iterable<string>): string {
  return [...subjects].map(encodeURIComponent).join(",")
}

interface Compared {
  /** What was ticked in the lists, with its name. */
  chosen: ReadonlyMap<string, string>
  toggle: (subject: string, name: string) => void
  clear: () => void
}

/** What is chosen for a comparison, until the page is loaded again. */
export const useCompared = create<Compared>((set) => ({
  chosen: new Map(),
  toggle: (subject, name) =>
    set(({ chosen }) => {
      const next = new Map(chosen)
      if (!next.delete(subject) && next.size < MOST_COMPARED) next.set(subject, name)
      return { chosen: next }
    }),
  clear: () => set({ chosen: new Map() }),
}))
