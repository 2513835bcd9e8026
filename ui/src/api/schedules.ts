/** Schedules: CronWorkflows, and recurring runs of pipelines. */
import { queryOptions } from "@tanstack/react-query"
import type { ArgoPlace } from "./argo"
import { api, data, reloadAfter, type Schema } from "./client"
import { filledIn } from "./workflows"

export type Schedule = Schema<"Schedule">
export type ScheduleState = Schedule["state"]
export type ScheduleBody = Schema<"ScheduleBody">

interface ScheduleFilter {
  q?: string
  kind?: Schedule["kind"]
  state?: ScheduleState[]
  sort?: string
  cursor?: string
  limit?: number
}

const AGAIN_MS = 5000

export const schedulesQuery = (query: ScheduleFilter) =>
  queryOptions({
    queryKey: ["schedules", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/schedules", { params: { query: filledIn(query) }, signal }).then(data),
    refetchInterval: AGAIN_MS,
  })

export const scheduleQuery = (path: ArgoPlace) =>
  queryOptions({
    queryKey: ["schedules", "one", path],
    queryFn: ({ signal }) => api.GET("/api/v1/schedules/{namespace}/{name}", { params: { path }, signal }).then(data),
    refetchInterval: AGAIN_MS,
  })

export const scheduleYamlQuery = (path: ArgoPlace) =>
  queryOptions({
    queryKey: ["schedules", "one", path, "yaml"],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/schedules/{namespace}/{name}/yaml", { params: { path }, parseAs: "text", signal })
        .then(data) as Promise<string>,
  })

/** The next times of cron expressions, or why they cannot be read. */
export const timesQuery = (schedule: string[], timezone: string) =>
  queryOptions({
    queryKey: ["schedules", "times", schedule, timezone],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/schedules/times", { params: { query: { schedule, timezone } }, signal }).then(data),
    retry: false,
  })

export async function createSchedule(body: ScheduleBody): Promise<Schedule> {
  return changed(api.POST("/api/v1/schedules", { body }).then(data))
}

export async function pauseSchedule(path: ArgoPlace): Promise<unknown> {
  return changed(api.POST("/api/v1/schedules/{namespace}/{name}/pause", { params: { path } }))
}

export async function resumeSchedule(path: ArgoPlace): Promise<unknown> {
  return changed(api.POST("/api/v1/schedules/{namespace}/{name}/resume", { params: { path } }))
}

export async function runSchedule(path: ArgoPlace): Promise<ArgoPlace> {
  return changed(api.POST("/api/v1/schedules/{namespace}/{name}/run", { params: { path } }).then(data))
}

export async function deleteSchedule(path: ArgoPlace): Promise<unknown> {
  return changed(api.DELETE("/api/v1/schedules/{namespace}/{name}", { params: { path } }), true)
}

export function changed<T>(work: Promise<T>, isGone = false): Promise<T> {
  return reloadAfter(work, isGone ? ["schedules", "list"] : ["schedules"], ["all runs"])
}
