/** What forms offer to choose from: modules, virtual clusters, storage roots, teams and categories. */
import { queryOptions, useQueries } from "@tanstack/react-query"
import { useMemo } from "react"
import { api, data, queryClient, type Schema } from "./client"
import { filledIn } from "./workflows"

export type Cluster = Schema<"VirtualCluster">
export type StorageRoot = Schema<"StorageRoot">
export type Module = Schema<"Module">
export type ModuleVersion = Schema<"ModuleVersionDetail">

/** States of module versions that have been built. Their owners may use them; everyone may use published ones. */
export const USABLE: ReadonlySet<string> = new Set(["private", "in review", "rejected", "published", "deprecated"])

const MOST = 200
const KEPT = 60_000

export const clustersQuery = queryOptions({
  queryKey: ["clusters", "all"],
  queryFn: ({ signal }) => api.GET("/api/v1/clusters", { params: { query: { limit: MOST } }, signal }).then(data),
  staleTime: KEPT,
})

/** The virtual clusters, if they have been loaded. */
export function loadedClusters(): Cluster[] {
  return queryClient.getQueryData(clustersQuery.queryKey)?.items ?? []
}

export const rootsQuery = queryOptions({
  queryKey: ["storage", "all"],
  queryFn: ({ signal }) => api.GET("/api/v1/storage", { params: { query: { limit: MOST } }, signal }).then(data),
  staleTime: KEPT,
})

export const teamsQuery = queryOptions({
  queryKey: ["teams", "all"],
  queryFn: ({ signal }) => api.GET("/api/v1/teams", { params: { query: { limit: MOST } }, signal }).then(data),
  staleTime: KEPT,
})

export const categoriesQuery = queryOptions({
  queryKey: ["categories", "all"],
  queryFn: ({ signal }) => api.GET("/api/v1/categories", { params: { query: { limit: MOST } }, signal }).then(data),
  staleTime: KEPT,
})

/** The modules that the user may put into a workflow. */
export const usableModulesQuery = (query: { q?: string; category?: string; mine?: boolean; published?: boolean }) =>
  queryOptions({
    queryKey: ["modules", "usable", query],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/modules", {
          params: { query: { ...filledIn(query), usable: true, limit: 100, sort: "name" } },
          signal,
        })
        .then(data),
    staleTime: 15_000,
  })

export const moduleVersionQuery = (module: string, version: string) =>
  queryOptions({
    queryKey: ["modules", module, "versions", "one", version],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/modules/{module}/versions/{version}", { params: { path: { module, version } }, signal })
        .then(data),
    staleTime: KEPT,
  })

export const moduleVersionsQuery = (module: string) =>
  queryOptions({
    queryKey: ["modules", module, "versions", "all"],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/modules/{module}/versions", { params: { path: { module }, query: { limit: MOST } }, signal })
        .then(data),
    staleTime: 15_000,
  })

/** The inputs and outputs of these modules by `name@version`, as far as they are loaded. */
export function useModuleVersions(wanted: { name: string; version: string }[]): Map<string, ModuleVersion> {
  const names = [...new Set(wanted.map(({ name, version }) => `${name}@${version}`))].sort()
  const found = useQueries({
    queries: names.map((each) => {
      const at = each.lastIndexOf("@")
      return { ...moduleVersionQuery(each.slice(0, at), each.slice(at + 1)), retry: false }
    }),
    combine: (results) => results.map((result) => result.data),
  })
  const key = names.join("\n")
  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` is the content of `names`, whose array is new on every render.
  return useMemo(
    () => new Map(names.flatMap((name, index) => (found[index] ? [[name, found[index]] as const] : []))),
    [key, found],
  )
}
