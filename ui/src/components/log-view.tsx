import { useVirtualizer } from "@tanstack/react-virtual"
import { ArrowDown, ArrowUp, Download } from "lucide-react"
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react"
import { type LogSource, useLog } from "@/api/log"
import { classes } from "@/lib/classes"
import { commonWords } from "@/words/common"
import { runWords } from "@/words/runs"
import { useWords } from "@/words/words"
import { Button } from "./button"
import { Input, Tick } from "./form"

const ROW = 20
const COLOURS = /\u001b\[[0-9;?]*[ -/]*[@-~]/g

interface Props {
  source: LogSource
  over: boolean
  ended?: () => void
  /** What is looked for, and whether it follows, where several logs beside each other have that in common. */
  shared?: { search: string; follow: boolean; setFollow: (follow: boolean) => void }
  label?: string
}

/** A log that follows what is written, can be searched, and stays quick whatever its length. */
export function LogView({ source, over, ended, shared, label }: Props) {
  const w = useWords(runWords)
  const c = useWords(commonWords)
  const log = useLog(source, over, ended)
  const [ownFollow, setOwnFollow] = useState(true)
  const [ownTyped, setTyped] = useState("")
  const [follow, setFollow] = shared ? [shared.follow, shared.setFollow] : [ownFollow, setOwnFollow]
  const typed = shared?.search ?? ownTyped
  const wanted = useDeferredValue(typed.toLowerCase())
  const [at, setAt] = useState(0)
  const box = useRef<HTMLDivElement>(null)

  const matches = useMemo(() => {
    if (!wanted) return []
    const found: number[] = []
    log.lines.forEach((line, index) => line.toLowerCase().includes(wanted) && found.push(index))
    return found
  }, [wanted, log.lines, log.count])
  const rows = useVirtualizer({ count: log.count, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 30 })

  useEffect(() => {
    if (follow && log.count && !wanted) rows.scrollToIndex(log.count - 1, { align: "end" })
  }, [follow, log.count, rows, wanted])
  const first = matches[0]
  useEffect(() => {
    if (!shared) return
    setAt(0)
    if (wanted && first !== undefined) rows.scrollToIndex(first, { align: "center" })
    // Only what is looked for leads to another place, not what is written meanwhile.
  }, [shared?.search, wanted])
  const jump = (to: number) => {
    if (!matches.length) return
    const place = (to + matches.length) % matches.length
    setAt(place)
    setFollow(false)
    rows.scrollToIndex(matches[place] as number, { align: "center" })
  }
  const current = matches[Math.min(at, matches.length - 1)]

  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className={classes("flex flex-wrap items-center gap-2 border-b", shared ? "px-2" : "p-2")}>
        {!shared && (
          <Input
            type="search"
            className="h-8 w-44"
            aria-label={w("searchLog")}
            placeholder={w("searchLog")}
            value={typed}
            onChange={(event) => {
              setTyped(event.target.value)
              setAt(0)
            }}
            onKeyDown={(event) => event.key === "Enter" && jump(event.shiftKey ? at - 1 : at + 1)}
          />
        )}
        {typed && (
          <>
            <span className="text-[13px] text-muted-foreground">{w("matches", { at: matches.length ? at + 1 : 0, n: matches.length })}</span>
            <Button size="icon" look="ghost" aria-label={w("previousMatch")} onClick={() => jump(at - 1)}>
              <ArrowUp />
            </Button>
            <Button size="icon" look="ghost" aria-label={w("nextMatch")} onClick={() => jump(at + 1)}>
              <ArrowDown />
            </Button>
          </>
        )}
        <span className="ml-auto text-[13px] text-muted-foreground" role="status">
          {log.lost ? w("logLost") : w("logEnd", { n: log.count })}
        </span>
        {!shared && <Tick label={w("follow")} checked={follow} onChange={(event) => setFollow(event.target.checked)} />}
        <Button asChild size="icon" look="ghost">
          <a href={source.text} download={source.name} aria-label={c("download")} title={c("download")}>
            <Download />
          </a>
        </Button>
      </div>
      <div
        ref={box}
        tabIndex={0}
        role="log"
        aria-label={label ?? w("logs")}
        aria-live="off"
        className="min-h-0 flex-1 overflow-auto bg-background py-1 font-mono text-xs"
        onWheel={(event) => event.deltaY < 0 && setFollow(false)}
      >
        {log.count === 0 && log.ended && <p className="px-3 py-2 font-sans text-muted-foreground">{w("logEmpty")}</p>}
        <div className="relative min-w-max" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const text = log.lines[row.index] ?? ""
            return (
              <div
                key={row.key}
                className={classes(
                  "absolute flex h-5 items-center pr-4 whitespace-pre hover:bg-muted/60",
                  wanted && text.toLowerCase().includes(wanted) && "bg-warning/12",
                  row.index === current && "bg-warning/25",
                )}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                <span aria-hidden className="mr-3 inline-block w-12 shrink-0 text-right text-muted-foreground select-none">
                  {row.index + 1}
                </span>
                {text.replace(COLOURS, "")}
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}
