/** The tasks of a run, and their states: what is drawn of a run of a manifest, and of Workflows of other clients. */
import { type QueryKey, type UseQueryOptions, useQuery } from "@tanstack/react-query"
import { useEffect, useMemo, useState } from "react"
import { reload } from "@/api/client"
import { RunStates, type TaskGraph, type TaskState } from "./task-graph"

const GRAPH_MILLISECONDS = 1000
const LONG_MILLISECONDS = 60_000
const ENDED = new Set(["succeeded", "failed", "stopped"])

interface TaskRun {
  id: string
  state: string
  finished: string | null
  nodes: readonly (TaskState & { attempts: number })[]
}

const isLongOver = ({ finished }: TaskRun) =>
  finished !== null && Date.now() - new Date(finished).getTime() > LONG_MILLISECONDS

/** The graph is `given`, or loaded, and loaded again when the run has created nodes. Undefined until it is there. */
export function useRunTasks<K extends QueryKey>(
  query: UseQueryOptions<TaskGraph, Error, TaskGraph, K>,
  run: TaskRun | undefined,
  given?: TaskGraph,
) {
  const loaded = useQuery({ ...query, enabled: run !== undefined && !given }).data
  const graph = given ?? loaded
  const count = run?.nodes.length ?? 0
  const [known, setKnown] = useState({ run: "", nodes: 0 })
  // biome-ignore lint/correctness/useExhaustiveDependencies: the query depends on the run alone.
  useEffect(() => {
    if (!loaded || !run) return
    // Both are loaded at the same time: the graph of a run that has just ended may be older than the run.
    if (known.run !== run.id) return setKnown({ run: run.id, nodes: isLongOver(run) ? count : -1 })
    if (count === known.nodes) return
    const timer = setTimeout(() => {
      setKnown({ run: run.id, nodes: count })
      void reload(query.queryKey)
    }, GRAPH_MILLISECONDS)
    return () => clearTimeout(timer)
  }, [loaded, count, known, run?.id])
  const { nodes, state } = run ?? {}
  return useMemo(() => {
    if (!nodes || !graph) return undefined
    const states = new RunStates(nodes, { over: ENDED.has(state ?? ""), succeeded: state === "succeeded" })
    const attempts = new Map(nodes.map(({ name, attempts }) => [name, attempts]))
    return { graph, run: { states, attempts } }
  }, [graph, nodes, state])
}
