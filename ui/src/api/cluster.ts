/** Nodes and their Pods, queues and gangs, virtual clusters and their usage. All of it is polled. */
import { queryOptions } from "@tanstack/react-query"
import { api, data, type Schema } from "./client"
import { filledIn } from "./workflows"

export type ClusterNode = Schema<"MachineAnswer">
export type ClusterNodeDetail = Schema<"WholeMachine">
export type Amount = Schema<"AmountAnswer">
export type Queue = Schema<"QueueStatus">
export type PodGroup = Schema<"ListedPodGroup">
export type VirtualCluster = Schema<"VirtualCluster">
export type Usage = Schema<"UsageAnswer">

const AGAIN = 5_000
const MOST = 200

export const nodesQuery = queryOptions({
  queryKey: ["machines"],
  queryFn: ({ signal }) => api.GET("/api/v1/nodes", { signal }).then(data),
  refetchInterval: AGAIN,
})

export const nodeQuery = (node: string) =>
  queryOptions({
    queryKey: ["machines", node],
    queryFn: ({ signal }) => api.GET("/api/v1/nodes/{node}", { params: { path: { node } }, signal }).then(data),
    refetchInterval: AGAIN,
  })

export const queuesQuery = queryOptions({
  queryKey: ["queues"],
  queryFn: ({ signal }) => api.GET("/api/v1/queues", { signal }).then(data),
  refetchInterval: AGAIN,
})

export const podGroupsQuery = (query: { queue?: string; phase?: string }) =>
  queryOptions({
    queryKey: ["pod-groups", query],
    queryFn: ({ signal }) => api.GET("/api/v1/pod-groups", { params: { query: filledIn(query) }, signal }).then(data),
    refetchInterval: AGAIN,
  })

/** All virtual clusters, with the number of SKUs in use. */
export const clustersNowQuery = queryOptions({
  queryKey: ["clusters", "now"],
  queryFn: ({ signal }) => api.GET("/api/v1/clusters", { params: { query: { limit: MOST } }, signal }).then(data),
  refetchInterval: AGAIN,
})

export const clusterQuery = (cluster: string) =>
  queryOptions({
    queryKey: ["clusters", "one", cluster],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/clusters/{cluster}", { params: { path: { cluster } }, signal }).then(data),
    refetchInterval: AGAIN,
  })

export const clusterUsageQuery = (cluster: string, hours: number) =>
  queryOptions({
    queryKey: ["clusters", "one", cluster, "usage", hours],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/clusters/{cluster}/usage", { params: { path: { cluster }, query: { hours } }, signal })
        .then(data),
    refetchInterval: 30_000,
  })
