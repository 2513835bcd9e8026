/** Workflows that are no runs of the platform, and the list of everything that ran. */
import { queryOptions } from "@tanstack/react-query"
import type { TaskGraph } from "@/graph/task-graph"
import { api, data, reloadAfter, type Schema } from "./client"
import { useLiveList, useLiveOne } from "./live"
import { type LogSource, timedLog } from "./log"
import { filledIn } from "./workflows"

export type AnyRun = Schema<"AnyRun">
export type AnyRunState = AnyRun["state"]
export type Origin = AnyRun["origin"]
export type ArgoWorkflow = Schema<"ArgoWorkflowDetail">
export type ArgoNode = Schema<"ArgoNode">
export type ArgoNodeDetail = Schema<"ArgoNodeDetail">

/** What identifies a Workflow in addresses. */
export interface ArgoPlace {
  namespace: string
  name: string
}

export interface AllRunsFilter {
  q?: string
  state?: AnyRunState[]
  origin?: Origin[]
  workflow?: string
  tag?: string[]
  schedule?: string
  namespace?: string
  owner?: string
  sort?: string
  cursor?: string
  limit?: number
}

export const allRunsQuery = (query: AllRunsFilter) =>
  queryOptions({
    queryKey: ["all runs", query],
    queryFn: ({ signal }) => api.GET("/api/v1/runs/all", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const argoWorkflowQuery = (path: ArgoPlace) =>
  queryOptions({
    queryKey: ["argo workflows", path],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/argo-workflows/{namespace}/{name}", { params: { path }, signal }).then(data),
  })

/** What is drawn. It changes while the Workflow creates nodes. */
export const argoGraphQuery = (path: ArgoPlace) =>
  queryOptions({
    queryKey: ["argo workflows", path, "graph"],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/argo-workflows/{namespace}/{name}/graph", { params: { path }, signal })
        .then(data) as Promise<TaskGraph>,
  })

export const argoYamlQuery = (path: ArgoPlace) =>
  queryOptions({
    queryKey: ["argo workflows", path, "yaml"],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/argo-workflows/{namespace}/{name}/yaml", { params: { path }, parseAs: "text", signal })
        .then(data) as Promise<string>,
  })

export const argoNodeQuery = (place: ArgoPlace, node: string) =>
  queryOptions({
    queryKey: ["argo workflows", place, "nodes", node],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/argo-workflows/{namespace}/{name}/nodes/{node}", { params: { path: { ...place, node } }, signal })
        .then(data),
  })

export const argoNodePodsQuery = (place: ArgoPlace, node: string) =>
  queryOptions({
    queryKey: ["argo workflows", place, "nodes", node, "pods"],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/argo-workflows/{namespace}/{name}/nodes/{node}/pods", {
          params: { path: { ...place, node } },
          signal,
        })
        .then(data),
  })

export const argoNodeEventsQuery = (place: ArgoPlace, node: string) =>
  queryOptions({
    queryKey: ["argo workflows", place, "nodes", node, "events"],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/argo-workflows/{namespace}/{name}/nodes/{node}/happenings", {
          params: { path: { ...place, node } },
          signal,
        })
        .then(data),
  })

export function argoLog(place: ArgoPlace, node: string, attempt?: number): LogSource {
  const query = new URLSearchParams()
  if (attempt) query.set("attempt", String(attempt))
  const said = query.toString() && `?${query}`
  const text = `${address(place)}/nodes/${encodeURIComponent(node)}/log`
  return {
    text: text + said,
    events: `${text}/events?${new URLSearchParams([...query, ["bunches", "true"]])}`,
    name: `${node}.log`,
    timed: timedLog(text, query),
  }
}

export function argoOutputAddress(place: ArgoPlace, node: string, output: string): string {
  return `${address(place)}/nodes/${encodeURIComponent(node)}/outputs/${encodeURIComponent(output)}`
}

export type ArgoAction = "stop" | "suspend" | "resume" | "retry"

export async function changeWorkflow(path: ArgoPlace, action: ArgoAction): Promise<unknown> {
  return changed(api.POST(`/api/v1/argo-workflows/{namespace}/{name}/${action}`, { params: { path } }))
}

export async function resubmitWorkflow(path: ArgoPlace): Promise<ArgoPlace> {
  return changed(api.POST("/api/v1/argo-workflows/{namespace}/{name}/resubmit", { params: { path } }).then(data))
}

export async function deleteWorkflow(path: ArgoPlace): Promise<void> {
  await reloadAfter(api.DELETE("/api/v1/argo-workflows/{namespace}/{name}", { params: { path } }), ["all runs"])
}

/** Keeps the lists of everything that ran up to date. */
export function useLiveAllRuns(): void {
  useLiveList("/api/v1/runs/all/events", ["all runs"])
}

/** Keeps a Workflow and its nodes up to date. Returns true when it was deleted. */
export function useLiveWorkflow(place: ArgoPlace): boolean {
  return useLiveOne(`${address(place)}/events`, {
    name: "workflow",
    key: argoWorkflowQuery(place).queryKey,
    also: [["argo workflows", place, "nodes"]],
  })
}

function address({ namespace, name }: ArgoPlace): string {
  return `/api/v1/argo-workflows/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
}

function changed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["all runs"], ["argo workflows"])
}
