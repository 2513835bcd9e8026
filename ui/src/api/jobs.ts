/** Training jobs: lists and details that follow the server by server-sent events, and manifests. */
import { queryOptions } from "@tanstack/react-query"
import { api, data, reloadAfter, type Schema } from "./client"
import { useLiveList, useLiveOne } from "./live"
import { type LogSource, timedLog } from "./log"
import { filledIn } from "./workflows"

export type Job = Schema<"Job">
export type JobDetail = Schema<"JobDetail">
export type JobState = Job["state"]
export type JobRole = Schema<"JobRole">
export type JobMember = Schema<"JobMember">
export type JobReason = Schema<"JobReason">
export type ManifestProblem = Schema<"ManifestProblem">
export type CheckedManifest = Schema<"CheckedManifest">

/** What identifies a job in addresses. */
export interface JobPlace {
  namespace: string
  kind: string
  name: string
}

export interface JobFilter {
  q?: string
  kind?: string[]
  state?: JobState[]
  owner?: string
  run?: string
  since?: string
  sort?: string
  cursor?: string
  limit?: number
}

export const jobsQuery = (query: JobFilter) =>
  queryOptions({
    queryKey: ["jobs", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/jobs", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const jobKindsQuery = queryOptions({
  queryKey: ["jobs", "kinds"],
  queryFn: ({ signal }) => api.GET("/api/v1/jobs/kinds", { signal }).then(data),
  staleTime: Infinity,
})

export const jobQuery = (path: JobPlace) =>
  queryOptions({
    queryKey: ["jobs", "one", path],
    queryFn: ({ signal }) => api.GET("/api/v1/jobs/{namespace}/{kind}/{name}", { params: { path }, signal }).then(data),
  })

export const jobEventsQuery = (path: JobPlace) =>
  queryOptions({
    queryKey: ["jobs", "one", path, "happenings"],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/jobs/{namespace}/{kind}/{name}/happenings", { params: { path }, signal }).then(data),
  })

export const jobYamlQuery = (path: JobPlace) =>
  queryOptions({
    queryKey: ["jobs", "one", path, "yaml"],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/jobs/{namespace}/{kind}/{name}/yaml", { params: { path }, parseAs: "text", signal })
        .then(data) as Promise<string>,
  })

export function jobLog(place: JobPlace, pod: string): LogSource {
  const text = `${address(place)}/pods/${encodeURIComponent(pod)}/log`
  return { text, events: `${text}/events`, name: `${pod}.log`, timed: timedLog(text) }
}

export async function checkJobs(manifest: string, signal: AbortSignal): Promise<CheckedManifest> {
  return api.POST("/api/v1/jobs/validate", { body: { manifest }, signal }).then(data)
}

export async function createJobs(manifest: string, team: string): Promise<Job[]> {
  return changed(api.POST("/api/v1/jobs", { body: { manifest, team } }).then(data))
}

export async function suspendJob(path: JobPlace): Promise<unknown> {
  return changed(api.POST("/api/v1/jobs/{namespace}/{kind}/{name}/suspend", { params: { path } }))
}

export async function resumeJob(path: JobPlace): Promise<unknown> {
  return changed(api.POST("/api/v1/jobs/{namespace}/{kind}/{name}/resume", { params: { path } }))
}

export async function deleteJob(path: JobPlace): Promise<void> {
  await reloadAfter(api.DELETE("/api/v1/jobs/{namespace}/{kind}/{name}", { params: { path } }), ["jobs", "list"])
}

export function placeOf(job: Pick<Job, "namespace" | "word" | "name">): JobPlace {
  return { namespace: job.namespace, kind: job.word, name: job.name }
}

/** Keeps lists of jobs up to date. */
export function useLiveJobs(): void {
  useLiveList<Job>("/api/v1/jobs/events", ["jobs", "list"], { name: "job", isSame: (a, b) => a.uid === b.uid })
}

/** Keeps a job and its replicas up to date. Returns true when it was deleted. */
export function useLiveJob(place: JobPlace): boolean {
  return useLiveOne(`${address(place)}/events`, {
    name: "job",
    key: jobQuery(place).queryKey,
    also: [jobEventsQuery(place).queryKey, jobYamlQuery(place).queryKey],
  })
}

function address({ namespace, kind, name }: JobPlace): string {
  return `/api/v1/jobs/${[namespace, kind, name].map(encodeURIComponent).join("/")}`
}

function changed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["jobs"])
}
