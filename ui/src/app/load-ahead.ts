/**
 * Starts what the pages with the largest graphs need: their data, their code, and the layout. All of it at once, and on
 * the first visit before the session is known, because a run of 10,000 nodes has to be painted within a second.
 */
import { cookie, queryClient } from "@/api/client"
import { runGraphQuery, runQuery } from "@/api/runs"
import { versionQuery } from "@/api/workflows"

export function loadRun(run: string): void {
  void queryClient.prefetchQuery(runQuery(run))
  void arrangeRun(run).catch(() => {}) // the page says what is wrong
}

/** The graph arrives before the run, so its layout is done when the run is there. */
async function arrangeRun(run: string): Promise<void> {
  const loading = queryClient.ensureQueryData(runGraphQuery(run))
  const { arrange } = await import("@/graph/workflow-graph")
  arrange(await loading)
}

export function loadVersion(workflow: string, version: string): void {
  void queryClient.prefetchQuery(versionQuery(workflow, version))
  void import("@/graph/workflow-graph")
}

/** The page of this address. Without a session there is nothing to load. */
export function loadAhead(path: string): void {
  if (!cookie("muster_csrf")) return
  const run = /^\/runs\/([^/]+)$/.exec(path)?.[1]
  const [, workflow, version] = /^\/workflows\/([^/]+)\/versions\/([^/]+)$/.exec(path) ?? []
  if (run && run !== "new") loadRun(decodeURIComponent(run))
  else if (workflow && version) loadVersion(decodeURIComponent(workflow), decodeURIComponent(version))
}
