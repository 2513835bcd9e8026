/** When each node ran, below an axis of times since the start. */
import { useVirtualizer } from "@tanstack/react-virtual"
import { useEffect, useMemo, useRef, useState } from "react"
import { usePreferences } from "@/app/preferences"
import { type RunStateName, StateBadge } from "@/components/badge"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { axisTicks, duration, moment } from "@/lib/times"

const BARS: Record<string, string> = {
  running: "bg-fill-running",
  succeeded: "bg-fill-succeeded",
  failed: "bg-fill-failed",
}
const COLUMNS =
  "grid grid-cols-[11rem_6.5rem_1fr_4rem] items-center gap-3 px-3 max-sm:grid-cols-[6rem_1fr_3.5rem] max-sm:gap-2"

const ROW = 36

export interface TimedNode {
  name: string
  state: RunStateName
  attempts: number
  started: string | null
  finished: string | null
}

interface Props<N extends TimedNode> {
  /** They decide how long the axis is. */
  all: readonly N[]
  idOf: (node: N) => string
  shown: readonly N[]
  started: string | null
  goes: boolean
  selected?: string
  select: (id: string) => void
}

const time = (at: string | null) => (at ? new Date(at).getTime() : undefined)

/** When the first node started and the last one ended: now, if one has not. */
function extent(nodes: readonly TimedNode[], started: string | null, now: number): { first: number; last: number } {
  let first = time(started) ?? now
  let last = 0
  for (const node of nodes) {
    const start = time(node.started)
    if (start === undefined) continue
    first = Math.min(first, start)
    last = Math.max(last, time(node.finished) ?? now)
  }
  return { first, last: Math.max(first + 1000, last) }
}

export function Timeline<N extends TimedNode>({ all, idOf, shown, started, goes, selected, select }: Props<N>) {
  const w = useTexts(runTexts)
  const language = usePreferences((chosen) => chosen.language)
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!goes) return
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [goes])
  const { first, last } = useMemo(() => extent(all, started, now), [all, started, now])
  const share = (at: number) => ((at - first) / (last - first)) * 100
  const ticks = axisTicks(last - first)
  const nodes = useMemo(
    () => shown.toSorted((a, b) => (time(a.started) ?? Infinity) - (time(b.started) ?? Infinity)),
    [shown],
  )
  const scrolled = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({
    count: nodes.length,
    getScrollElement: () => scrolled.current,
    estimateSize: () => ROW,
    overscan: 20,
  })
  const at = selected === undefined ? -1 : nodes.findIndex((node) => idOf(node) === selected)
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when another node is selected.
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at, { align: "auto" })
  }, [selected])
  return (
    <div ref={scrolled} className="max-h-[calc(100vh-14rem)] overflow-y-auto rounded-lg border bg-card">
      <div className={classes(COLUMNS, "sticky top-0 z-10 border-b bg-card py-1 text-xs text-muted-foreground")}>
        <span className="col-span-2 truncate max-sm:col-span-1">
          {all.some((node) => node.started) && w("since", { time: moment(new Date(first).toISOString(), language) })}
        </span>
        <span aria-hidden className="relative h-4">
          {ticks.map((tick) => (
            <span
              key={tick}
              className={classes("absolute whitespace-nowrap", tick > 0 && "-translate-x-1/2")}
              style={{ left: `${share(first + tick)}%` }}
            >
              {tick === 0 ? "0" : duration(tick)}
            </span>
          ))}
        </span>
        <span className="text-right">{w("duration")}</span>
      </div>
      <ul className="relative my-1" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, start: top }) => {
          const node = nodes[index] as N
          const id = idOf(node)
          const start = time(node.started)
          const end = time(node.finished) ?? now
          const left = start === undefined ? 0 : share(start)
          const width = start === undefined ? 0 : Math.max(0.5, share(end) - left)
          return (
            <li
              key={id}
              aria-setsize={nodes.length}
              aria-posinset={index + 1}
              className="absolute inset-x-0"
              style={{ height: ROW, transform: `translateY(${top}px)` }}
            >
              <button
                type="button"
                onClick={() => select(id)}
                className={classes(
                  COLUMNS,
                  "h-full w-full text-left hover:bg-muted/60",
                  id === selected && "bg-accent dark:bg-accent/50",
                )}
              >
                <span className="truncate" title={node.name}>
                  {node.name}
                  {node.attempts > 1 && <span className="ml-1 text-muted-foreground">({node.attempts - 1})</span>}
                </span>
                <span className="max-sm:hidden">
                  <StateBadge state={node.state} />
                </span>
                <span aria-hidden className="relative h-4 overflow-hidden rounded bg-muted">
                  {ticks.slice(1).map((tick) => (
                    <span
                      key={tick}
                      className="absolute inset-y-0 w-px bg-border"
                      style={{ left: `${share(first + tick)}%` }}
                    />
                  ))}
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
    </div>
  )
}
