/** Runs: lists and details that follow the server by server-sent events. */
import { queryOptions } from "@tanstack/react-query"
import { useEffect } from "react"
import type { TaskGraph } from "@/graph/task-graph"
import { plain } from "@/lib/log-store"
import { newerOf } from "@/lib/newer-run"
import { api, data, queryClient, reload, reloadAfter, type Schema } from "./client"
import { useLiveList } from "./live"
import { filledIn } from "./workflows"

export type Run = Schema<"Run">
export type RunDetail = Schema<"RunDetail">
export type RunState = Run["state"]
export type RunNode = Schema<"RunNode">
/** What an event says of a run. */
type FollowedRun = Run & { node_states: RunNode[] }
export type RunNodeDetail = Schema<"RunNodeDetail">

export interface RunFilter {
  q?: string
  state?: RunState[]
  workflow?: string
  version?: string
  tag?: string[]
  owner?: string
  sort?: string
  cursor?: string
  limit?: number
}

export const runsQuery = (query: RunFilter) =>
  queryOptions({
    queryKey: ["runs", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/runs", { params: { query: filledIn(query) }, signal }).then(data),
  })

/** The tags that runs have, or those of one workflow, the most frequent first. */
export const runTagsQuery = (workflow: string) =>
  queryOptions({
    queryKey: ["runs", "tags", workflow],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/runs/tags", { params: { query: filledIn({ workflow }) }, signal }).then(data),
  })

/** The last event of each run that a page follows. */
const followed = new Map<string, FollowedRun>()

export const runQuery = (run: string) =>
  queryOptions({
    queryKey: ["runs", "one", run],
    queryFn: async ({ signal }) => {
      const loaded = data(await api.GET("/api/v1/runs/{run}", { params: { path: { run } }, signal }))
      return newerOf(loaded, followed.get(run)) // an event that is newer may have arrived before it
    },
  })

/** The tasks of a run of a manifest. It changes while the run creates nodes. */
export const runGraphQuery = (run: string) =>
  queryOptions({
    queryKey: ["runs", "one", run, "graph"],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/runs/{run}/graph", { params: { path: { run } }, signal }).then(data) as Promise<TaskGraph>,
  })

export const runNodeQuery = (run: string, node: string) =>
  queryOptions({
    queryKey: ["runs", "one", run, "nodes", node],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/runs/{run}/nodes/{node}", { params: { path: { run, node } }, signal }).then(data),
  })

export const runNodePodsQuery = (run: string, node: string) =>
  queryOptions({
    queryKey: ["runs", "one", run, "nodes", node, "pods"],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/runs/{run}/nodes/{node}/pods", { params: { path: { run, node } }, signal }).then(data),
  })

export const runNodeEventsQuery = (run: string, node: string) =>
  queryOptions({
    queryKey: ["runs", "one", run, "nodes", node, "events"],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/runs/{run}/nodes/{node}/events", { params: { path: { run, node } }, signal }).then(data),
  })

const LAST_LINES = 8

/** The end of a node's log, without colours. `attempt` tells the logs of a retried node apart. */
export const lastLinesQuery = (run: string, node: string, attempt: number) =>
  queryOptions({
    queryKey: ["runs", "one", run, "nodes", node, "last lines", attempt],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/runs/{run}/nodes/{node}/log", {
          params: { path: { run, node }, query: { attempt, tail: LAST_LINES } },
          parseAs: "text",
          signal,
        })
        .then(data)
        .then((text) => (text as string).trimEnd().split("\n").map(plain).join("\n")),
  })

export function outputAddress(run: string, node: string, output: string): string {
  const [a, b, c] = [run, node, output].map(encodeURIComponent)
  return `/api/v1/runs/${a}/nodes/${b}/outputs/${c}`
}

export async function createRun(body: {
  workflow: string
  version: string
  name: string
  parameters: Record<string, string>
  tags?: string[]
}): Promise<Run> {
  return changed(api.POST("/api/v1/runs", { body }).then(data))
}

export async function copyRun(
  run: string,
  body: { name: string; version: string; parameters: Record<string, string>; tags?: string[] },
): Promise<Run> {
  return changed(
    api.POST("/api/v1/runs/{run}/copy", { params: { path: { run } }, body: { workflow: "", ...body } }).then(data),
  )
}

export async function setRunTags(run: string, tags: string[]): Promise<Run> {
  return changed(api.PATCH("/api/v1/runs/{run}", { params: { path: { run } }, body: { tags } }).then(data))
}

export async function stopRun(run: string): Promise<unknown> {
  return changed(api.POST("/api/v1/runs/{run}/stop", { params: { path: { run } } }))
}

export async function retryRun(run: string): Promise<unknown> {
  return changed(api.POST("/api/v1/runs/{run}/retry", { params: { path: { run } } }))
}

export async function deleteRun(run: string): Promise<unknown> {
  return changed(api.DELETE("/api/v1/runs/{run}", { params: { path: { run } } }))
}

function changed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["runs"], ["all runs"])
}

/** Keeps lists of runs up to date. */
export function useLiveRuns(): void {
  useLiveList<Run>("/api/v1/runs/events", ["runs", "list"], {
    name: "run",
    isSame: (a, b) => a.id === b.id,
    pick: (said) => {
      const { node_states: _, ...run } = said as Partial<FollowedRun>
      return run
    },
  })
}

const TOGETHER_MILLISECONDS = 200

/**
 * Keeps a run and its nodes up to date, from when it is loaded. Of many changes in a short time, only the last is shown.
 */
export function useLiveRun(run: string, isLoaded: boolean): void {
  useEffect(() => {
    if (!isLoaded) return
    let timer: ReturnType<typeof setTimeout> | undefined
    let newest = ""
    const take = () => {
      timer = undefined
      const event = JSON.parse(newest) as FollowedRun
      followed.set(run, event)
      queryClient.setQueryData<RunDetail>(runQuery(run).queryKey, (whole) => whole && newerOf(whole, event))
      void reload(["runs", "one", run, "nodes"])
    }
    const after = queryClient.getQueryData(runQuery(run).queryKey)?.last_event ?? ""
    const search = new URLSearchParams({ after })
    const source = new EventSource(`/api/v1/runs/${encodeURIComponent(run)}/events?${search}`)
    source.addEventListener("run", (event) => {
      newest = event.data as string
      timer ??= setTimeout(take, TOGETHER_MILLISECONDS)
    })
    return () => {
      source.close()
      clearTimeout(timer)
      followed.delete(run)
    }
  }, [run, isLoaded])
}
