/** Modules with their versions, and the reviews that publish them. */
import { queryOptions } from "@tanstack/react-query"
import { api, data, reload, reloadAfter, type Schema } from "./client"
import type { LogSource } from "./log"
import { filledIn } from "./workflows"

export type Module = Schema<"Module">
export type ModuleVersion = Schema<"ModuleVersion">
export type ModuleVersionDetail = Schema<"ModuleVersionDetail">
export type Review = Schema<"Review">
export type ReviewState = Review["state"]

export interface ModuleFilter {
  q?: string
  category?: string
  state?: string
  mine?: boolean
  published?: boolean
  sort?: string
  cursor?: string
  limit?: number
}

/** The contents of the module form. */
export interface ModuleText {
  name: string
  category: string
  description: string
  team: string
  git_url: string
  git_ref: string
  dockerfile: string
  build_dir: string
  readme_path: string
  env: { name: string; value: string; secret: boolean }[]
  inputs: { name: string; description: string }[]
  outputs: { name: string; path: string; type: "text" | "file"; description: string }[]
}

/** The polling interval during a build. */
export const WHILE_BUILDING = 2_000

export const modulesQuery = (query: ModuleFilter) =>
  queryOptions({
    queryKey: ["modules", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/modules", { params: { query: filledIn(query) }, signal }).then(data),
    refetchInterval: ({ state }) =>
      state.data?.items.some((module) => module.state === "building") ? WHILE_BUILDING : false,
  })

export const moduleQuery = (module: string) =>
  queryOptions({
    queryKey: ["modules", module, "self"],
    queryFn: ({ signal }) => api.GET("/api/v1/modules/{module}", { params: { path: { module } }, signal }).then(data),
    refetchInterval: ({ state }) => (state.data?.state === "building" ? WHILE_BUILDING : false),
  })

export function buildLog(module: string, version: number): LogSource {
  const text = `/api/v1/modules/${encodeURIComponent(module)}/versions/${version}/log`
  return { text, events: `${text}/events`, name: `${module}-${version}.log` }
}

export async function createModule(body: ModuleText): Promise<Module> {
  return changed(api.POST("/api/v1/modules", { body }).then(data))
}

/** Refused if someone else has changed the module since `revision`. */
export async function editModule(module: string, revision: number, { name: _, ...body }: ModuleText): Promise<Module> {
  return changed(
    api
      .PATCH("/api/v1/modules/{module}", {
        params: { path: { module } },
        body,
        headers: { "If-Match": `"${revision}"` },
      })
      .then(data),
  )
}

export async function buildModuleAgain(module: string): Promise<Module> {
  return changed(api.POST("/api/v1/modules/{module}/build", { params: { path: { module } } }).then(data))
}

/** Leave the module's page before `modulesChanged`: it can no longer be loaded. */
export async function deleteModule(module: string): Promise<void> {
  await api.DELETE("/api/v1/modules/{module}", { params: { path: { module } } })
}

export async function askReview(module: string, version: number, message: string): Promise<Review> {
  const where = { path: { module, version: String(version) } }
  return changed(
    api.POST("/api/v1/modules/{module}/versions/{version}/review", { params: where, body: { message } }).then(data),
  )
}

export async function stepModule(
  module: string,
  version: number,
  step: "stop" | "retry" | "deprecate" | "restore",
): Promise<unknown> {
  const where = { params: { path: { module, version: String(version) } } }
  return changed(
    step === "stop"
      ? api.POST("/api/v1/modules/{module}/versions/{version}/stop", where)
      : step === "retry"
        ? api.POST("/api/v1/modules/{module}/versions/{version}/retry", where)
        : step === "deprecate"
          ? api.POST("/api/v1/modules/{module}/versions/{version}/deprecate", where)
          : api.POST("/api/v1/modules/{module}/versions/{version}/restore", where),
  )
}

export const reviewsQuery = (query: {
  q?: string
  state?: string
  module?: string
  mine?: boolean
  sort?: string
  cursor?: string
  limit?: number
}) =>
  queryOptions({
    queryKey: ["reviews", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/reviews", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const reviewQuery = (review: string) =>
  queryOptions({
    queryKey: ["reviews", "one", review],
    queryFn: ({ signal }) => api.GET("/api/v1/reviews/{review}", { params: { path: { review } }, signal }).then(data),
  })

export async function decideReview(
  review: string,
  decision: "approve" | "reject" | "withdraw",
  reason = "",
): Promise<Review> {
  const params = { path: { review } }
  return changed(
    decision === "approve"
      ? api.POST("/api/v1/reviews/{review}/approve", { params, body: { reason } }).then(data)
      : decision === "reject"
        ? api.POST("/api/v1/reviews/{review}/reject", { params, body: { reason } }).then(data)
        : api.POST("/api/v1/reviews/{review}/withdraw", { params }).then(data),
  )
}

/** Invalidates modules and reviews, and the modules that the editor offers. */
export function modulesChanged(): void {
  void reload(["modules"], ["reviews"])
}

function changed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["modules"], ["reviews"])
}
