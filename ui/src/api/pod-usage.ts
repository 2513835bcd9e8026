/** The CPU and memory that Pods use or have used. */
import { queryOptions } from "@tanstack/react-query"
import type { ArgoPlace } from "./argo"
import { api, data, type Schema } from "./client"
import type { JobPlace } from "./jobs"

export type PodUsage = Schema<"PodUsageReport">

/** Whose Pods: those of a node of a run, of a node of a Workflow, or of a job. */
export type UsageOf = { run: string; node: string } | { workflow: ArgoPlace; node: string } | { job: JobPlace }

const REFRESH_MILLISECONDS = 5000

/** `goes`: more is to come. */
export const podUsageQuery = (of: UsageOf, goes: boolean) =>
  queryOptions({
    queryKey: ["pod usage", of],
    queryFn: ({ signal }): Promise<PodUsage> => {
      if ("run" in of)
        return api.GET("/api/v1/runs/{run}/nodes/{node}/usage", { params: { path: of }, signal }).then(data)
      if ("job" in of)
        return api.GET("/api/v1/jobs/{namespace}/{kind}/{name}/usage", { params: { path: of.job }, signal }).then(data)
      return api
        .GET("/api/v1/argo-workflows/{namespace}/{name}/nodes/{node}/usage", {
          params: { path: { ...of.workflow, node: of.node } },
          signal,
        })
        .then(data)
    },
    refetchInterval: goes ? REFRESH_MILLISECONDS : false,
  })
