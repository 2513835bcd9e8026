/** Workflows and their versions. */
import { queryOptions } from "@tanstack/react-query"
import type { GraphDocument } from "@/graph/document"
import type { TaskGraph } from "@/graph/task-graph"
import { api, data, reloadAfter, type Schema } from "./client"

export type Workflow = Schema<"Workflow">
export type WorkflowDetail = Schema<"WorkflowDetail">
export type Version = Schema<"Version">
export type VersionDetail = Schema<"VersionDetail">
export type Stored = Schema<"StoredVersion">
export type Change = Schema<"Change">
export type GraphFinding = Schema<"Finding">

export interface WorkflowFilter {
  q?: string
  owner?: string
  team?: string
  archived?: "no" | "only" | "too"
  sort?: string
  cursor?: string
  limit?: number
}

export interface VersionText {
  name?: string
  description?: string
  document?: GraphDocument
  manifest?: string
}

export const workflowsQuery = (query: WorkflowFilter) =>
  queryOptions({
    queryKey: ["workflows", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/workflows", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const workflowQuery = (workflow: string) =>
  queryOptions({
    queryKey: ["workflows", workflow],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/workflows/{workflow}", { params: { path: { workflow } }, signal }).then(data),
  })

export const versionsQuery = (
  workflow: string,
  query: { q?: string; sort?: string; cursor?: string; limit?: number } = {},
) =>
  queryOptions({
    queryKey: ["workflows", workflow, "versions", query],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/workflows/{workflow}/versions", {
          params: { path: { workflow }, query: filledIn(query) },
          signal,
        })
        .then(data),
  })

export const versionQuery = (workflow: string, version: string) =>
  queryOptions({
    queryKey: ["workflows", workflow, "versions", "one", version],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/workflows/{workflow}/versions/{version}", { params: { path: { workflow, version } }, signal })
        .then(data),
  })

/** The tasks of a version that is a manifest. */
export const versionGraphQuery = (workflow: string, version: string) =>
  queryOptions({
    queryKey: ["workflows", workflow, "versions", "graph", version],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/workflows/{workflow}/versions/{version}/graph", {
          params: { path: { workflow, version } },
          signal,
        })
        .then(data) as Promise<TaskGraph>,
  })

export const diffQuery = (workflow: string, version: string, to: string) =>
  queryOptions({
    queryKey: ["workflows", workflow, "versions", "diff", version, to],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/workflows/{workflow}/versions/{version}/diff", {
          params: { path: { workflow, version }, query: { to } },
          signal,
        })
        .then(data),
  })

export const manifestQuery = (workflow: string, version: string) =>
  queryOptions({
    queryKey: ["workflows", workflow, "versions", "manifest", version],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/workflows/{workflow}/versions/{version}/manifest", {
          params: { path: { workflow, version } },
          parseAs: "text",
          signal,
        })
        .then(data) as Promise<string>,
  })

export function manifestAddress(workflow: string, version: string): string {
  return `/api/v1/workflows/${encodeURIComponent(workflow)}/versions/${encodeURIComponent(version)}/manifest`
}

export async function checkGraph(document: GraphDocument, signal?: AbortSignal): Promise<GraphFinding[]> {
  const found = await api.POST("/api/v1/graphs/check", { body: { document: plain(document) }, signal }).then(data)
  return found.problems
}

export async function importManifest(manifest: string, signal?: AbortSignal) {
  return api.POST("/api/v1/graphs/import", { body: { manifest }, signal }).then(data)
}

export async function createWorkflow(
  workflow: { name: string; description: string; team: string },
  version: VersionText,
): Promise<Stored> {
  return changed(api.POST("/api/v1/workflows", { body: { ...workflow, version: versionBody(version) } }).then(data))
}

/** With a revision of the workflow, fails if someone else has changed it since. */
export async function createVersion(workflow: string, version: VersionText, revision?: number): Promise<Stored> {
  return changed(
    api
      .POST("/api/v1/workflows/{workflow}/versions", {
        params: { path: { workflow } },
        headers: revision === undefined ? {} : { "If-Match": `"${revision}"` },
        body: versionBody(version),
      })
      .then(data),
  )
}

export async function copyVersion(
  from: { workflow: string; version: string },
  into: string | { name: string; description: string; team: string },
  version: VersionText,
): Promise<Stored> {
  const body =
    typeof into === "string"
      ? { into, version: versionBody(version) }
      : { into: "", workflow: into, version: versionBody(version) }
  return changed(
    api.POST("/api/v1/workflows/{workflow}/versions/{version}/copy", { params: { path: from }, body }).then(data),
  )
}

export async function editWorkflow(
  workflow: string,
  changes: { name?: string; description?: string; team?: string | null },
): Promise<unknown> {
  return changed(
    api.PATCH("/api/v1/workflows/{workflow}", {
      params: { path: { workflow } },
      body: changes as Schema<"WorkflowChange">,
    }),
  )
}

export async function archiveWorkflow(workflow: string, archived: boolean): Promise<unknown> {
  const where = { params: { path: { workflow } } }
  return changed(
    archived
      ? api.POST("/api/v1/workflows/{workflow}/archive", where)
      : api.POST("/api/v1/workflows/{workflow}/restore", where),
  )
}

export async function archiveVersion(workflow: string, version: string, archived: boolean): Promise<unknown> {
  const where = { params: { path: { workflow, version } } }
  return changed(
    archived
      ? api.POST("/api/v1/workflows/{workflow}/versions/{version}/archive", where)
      : api.POST("/api/v1/workflows/{workflow}/versions/{version}/restore", where),
  )
}

export async function deleteWorkflow(workflow: string): Promise<unknown> {
  return changed(api.DELETE("/api/v1/workflows/{workflow}", { params: { path: { workflow } } }))
}

function changed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["workflows"])
}

function versionBody(version: VersionText): Schema<"VersionBody"> {
  const { document, name = "", description = "", manifest = "" } = version
  return { name, description, manifest, document: document ? plain(document) : null }
}

function plain(document: GraphDocument): Record<string, unknown> {
  return document as unknown as Record<string, unknown>
}

/** Drops empty values, so that addresses and query keys stay short. */
export function filledIn<T extends object>(query: T): T {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined && value !== "")) as T
}
