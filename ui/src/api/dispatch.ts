/** Jobs of the dispatcher, on any cluster: lists and details that follow the server by server-sent events. */
import { queryOptions } from "@tanstack/react-query"
import { api, data, reloadAfter, type Schema } from "./client"
import { useLiveList, useLiveOne } from "./live"
import type { LogSource } from "./log"
import { filledIn } from "./workflows"

export type DispatchJob = Schema<"DispatchJob">
export type DispatchJobDetail = Schema<"DispatchJobDetail">
export type DispatchState = DispatchJob["state"]
export type DispatchEvent = Schema<"DispatchEvent">
export type Resolution = Schema<"Resolution">
export type NewDispatchJob = Schema<"DispatchJobBody">

export interface DispatchFilter {
  q?: string
  state?: DispatchState[]
  adapter?: string[]
  owner?: string
  since?: string
  sort?: string
  cursor?: string
  limit?: number
}

export const dispatchJobsQuery = (query: DispatchFilter) =>
  queryOptions({
    queryKey: ["dispatch", "list", query],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/dispatch/jobs", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const adaptersQuery = queryOptions({
  queryKey: ["dispatch", "adapters"],
  queryFn: ({ signal }) => api.GET("/api/v1/dispatch/adapters", { signal }).then(data),
  staleTime: Infinity,
})

export const dispatchJobQuery = (job: string) =>
  queryOptions({
    queryKey: ["dispatch", "one", job],
    queryFn: ({ signal }) => api.GET("/api/v1/dispatch/jobs/{job}", { params: { path: { job } }, signal }).then(data),
  })

export function dispatchLog(job: Pick<DispatchJob, "id" | "name">): LogSource {
  const text = `${address(job.id)}/log`
  return { text, events: `${text}/events`, name: `${job.name}.log` }
}

export async function submitDispatchJob(body: NewDispatchJob): Promise<DispatchJob> {
  return changed(api.POST("/api/v1/dispatch/jobs", { body }).then(data))
}

export async function cancelDispatchJob(job: string): Promise<unknown> {
  return changed(api.POST("/api/v1/dispatch/jobs/{job}/cancel", { params: { path: { job } } }))
}

export async function restartDispatchJob(job: string): Promise<unknown> {
  return changed(api.POST("/api/v1/dispatch/jobs/{job}/restart", { params: { path: { job } } }))
}

export async function resolveDispatchJob(job: string, body: Resolution): Promise<unknown> {
  return changed(api.POST("/api/v1/dispatch/jobs/{job}/resolve", { params: { path: { job } }, body }))
}

export async function setDispatchPriority(job: string, priority: number): Promise<unknown> {
  return changed(api.PATCH("/api/v1/dispatch/jobs/{job}", { params: { path: { job } }, body: { priority } }))
}

export async function deleteDispatchJob(job: string): Promise<void> {
  await reloadAfter(api.DELETE("/api/v1/dispatch/jobs/{job}", { params: { path: { job } } }), ["dispatch", "list"])
}

/** Keeps lists of jobs up to date. */
export function useLiveDispatchJobs(): void {
  useLiveList<DispatchJob>("/api/v1/dispatch/jobs/events", ["dispatch", "list"], {
    name: "job",
    isSame: (a, b) => a.id === b.id,
  })
}

/** Keeps a job up to date. Returns true when it was deleted. */
export function useLiveDispatchJob(job: string): boolean {
  return useLiveOne(`${address(job)}/events`, { name: "job", key: dispatchJobQuery(job).queryKey })
}

function address(job: string): string {
  return `/api/v1/dispatch/jobs/${encodeURIComponent(job)}`
}

function changed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["dispatch"])
}
