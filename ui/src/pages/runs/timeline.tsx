/** When each node ran. */
import { useEffect, useState } from "react"
import type { RunDetail, RunNode } from "@/api/runs"
import { StateBadge } from "@/components/badge"
import { classes } from "@/lib/classes"
import { duration } from "@/lib/times"

const BARS: Record<string, string> = {
  running: "bg-fill-running",
  succeeded: "bg-fill-succeeded",
  failed: "bg-fill-failed",
}

interface Props {
  run: RunDetail
  /** Those to show. */
  nodes: readonly RunNode[]
  selected?: string
  select: (node: string) => void
}

export function Timeline({ run, nodes: shown, selected, select }: Props) {
  const [now, setNow] = useState(Date.now)
  const goes = run.state === "running"
  useEffect(() => {
    if (!goes) return
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [goes])
  const time = (at: string | null) => (at ? new Date(at).getTime() : undefined)
  const starts = run.node_states.flatMap((node) => time(node.started) ?? [])
  const first = Math.min(...starts, time(run.started) ?? now)
  const last = Math.max(first + 1000, ...run.node_states.map((node) => time(node.finished) ?? (node.started ? now : 0)))
  const nodes = [...shown].sort((a, b) => (time(a.started) ?? Infinity) - (time(b.started) ?? Infinity))
  return (
    <ul className="flex max-h-[calc(100vh-14rem)] flex-col overflow-y-auto rounded-lg border bg-card py-1">
      {nodes.map((node) => {
        const start = time(node.started)
        const end = time(node.finished) ?? now
        const left = start === undefined ? 0 : ((start - first) / (last - first)) * 100
        const width = start === undefined ? 0 : Math.max(0.5, ((end - start) / (last - first)) * 100)
        return (
          <li key={node.name}>
            <button
              type="button"
              onClick={() => select(node.name)}
              className={classes(
                "grid w-full grid-cols-[11rem_6.5rem_1fr_4rem] items-center gap-3 px-3 py-1.5 text-left hover:bg-muted/60",
                node.name === selected && "bg-accent",
              )}
            >
              <span className="truncate">
                {node.name}
                {node.attempts > 1 && <span className="ml-1 text-muted-foreground">({node.attempts - 1})</span>}
              </span>
              <span>
                <StateBadge state={node.state} />
              </span>
              <span aria-hidden className="relative h-4 rounded bg-muted">
                <span
                  className={classes("absolute inset-y-0 rounded", BARS[node.state] ?? "bg-waiting")}
                  style={{ left: `${left}%`, width: `${Math.min(width, 100 - left)}%` }}
                />
              </span>
              <span className="text-right text-[13px] text-muted-foreground tabular-nums">
                {start === undefined ? "–" : duration(end - start)}
              </span>
            </button>
          </li>
        )
      })}
    </ul>
  )
}
