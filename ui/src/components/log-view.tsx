/** The log viewer. */

import { ArrowDown, ArrowUp, Clock, Download, Maximize2, Minimize2, WrapText } from "lucide-react"
import {
  memo,
  type RefObject,
  useCallback,
  useDeferredValue,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  type WheelEvent,
} from "react"
import { create } from "zustand"
import { type LogSource, useLog } from "@/api/log"
import { commonTexts } from "@/i18n/common"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"
import { type Piece, pieces } from "@/lib/ansi"
import { classes } from "@/lib/classes"
import { plain } from "@/lib/log-store"
import { type Extent, elementHeight, furthest, offsetOf, rowsAt, scrolledTo } from "@/lib/virtual-scroll"
import { Button } from "./button"
import { Dialog } from "./dialog"
import { Input, Tick } from "./form"

const SHOWN = 2000

/** The number of characters shown in a row. */
export function isLong(text: string): boolean {
  return text.length > SHOWN
}

/** A line with its colours; a very long line is cut off. */
export const LogLine = memo(function LogLine({ text, whole }: { text: string; whole?: boolean }) {
  return pieces(whole ? text : text.slice(0, SHOWN)).map((piece, index) => (
    <span
      key={index}
      className={
        classes(
          piece.bold && "font-bold",
          piece.dim && "opacity-75",
          piece.italic && "italic",
          piece.underlined && "underline",
        ) || undefined
      }
      style={colours(piece)}
    >
      {piece.text}
    </span>
  ))
})

function colours({ colour, background }: Piece): { color?: string; background?: string } | undefined {
  if (colour === undefined && background === undefined) return undefined
  const css = (value: number | string | undefined) => (typeof value === "number" ? `var(--ansi-${value})` : value)
  // On a coloured background, text without a colour uses the theme's background colour.
  return { color: css(colour) ?? "var(--background)", background: css(background) }
}

export interface Rows {
  /** The height of the scrolled content, the rows in it, and the offset of the first. */
  height: number
  from: number
  to: number
  top: number
  show: (row: number, align: "middle" | "end") => void
  /** Puts a row at the top. */
  first: (row: number) => void
  onScroll: () => void
  onWheel: (event: WheelEvent) => void
}

/**
 * `wrap`: rows may be higher than `row`. Then the scroll bar counts lines, the first visible line is at the top, and
 * the last line can be scrolled up to the top.
 */
export function useRows(box: RefObject<HTMLElement | null>, count: number, row: number, wrap = false): Rows {
  const [height, setSeen] = useState(600)
  const [offset, setOffset] = useState(0)
  const expected = useRef(-1)
  const seen = wrap ? row : height
  const extent: Extent = { count, row, seen }
  const now = useRef({ extent, offset })
  now.current = { extent, offset: Math.min(offset, furthest(extent)) }

  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    const watch = new ResizeObserver(() => setSeen(element.clientHeight))
    watch.observe(element)
    setSeen(element.clientHeight)
    return () => watch.disconnect()
  }, [box])

  const move = useCallback(
    (to: number) => {
      const { extent } = now.current
      const offset = Math.min(furthest(extent), Math.max(0, to))
      now.current.offset = offset
      setOffset(offset)
      if (!box.current) return
      box.current.scrollTop = scrolledTo(offset, extent)
      expected.current = box.current.scrollTop
    },
    [box],
  )

  // More rows may change the height, and so the position of the scroll bar.
  useLayoutEffect(() => {
    const element = box.current
    if (!element || count * row <= elementHeight({ count, row, seen })) return
    element.scrollTop = scrolledTo(now.current.offset, now.current.extent)
    expected.current = element.scrollTop
  }, [count, row, seen, box])

  const onScroll = useCallback(() => {
    const element = box.current
    if (!element || Math.abs(element.scrollTop - expected.current) < 1) return
    expected.current = -1
    setOffset(offsetOf(element.scrollTop, now.current.extent))
  }, [box])

  const scaled = count * row > elementHeight(extent)
  const onWheel = useCallback(
    (event: WheelEvent) => {
      // The scroll bar stands for so many rows that a turn of the wheel would skip pages.
      if (scaled && event.deltaY && !event.ctrlKey)
        move(now.current.offset + event.deltaY * (event.deltaMode === 1 ? row : 1))
    },
    [move, row, scaled],
  )
  const show = useCallback(
    (number: number, align: "middle" | "end") => {
      move(align === "end" ? (number + 1) * row - height : (number + 0.5) * row - height / 2)
    },
    [move, row, height],
  )
  const first = useCallback((number: number) => move(number * row), [move, row])
  const place = now.current.offset
  const { from, to } = wrap ? rowsAt(place, { ...extent, seen: height }, 0) : rowsAt(place, extent)
  const bar = scrolledTo(place, extent)
  const top = bar - place + from * row
  return { height: elementHeight(extent) + height - seen, from, to, top, show, first, onScroll, onWheel }
}

/** Whether lines are wrapped and have their times; the same for all logs of a page. */
const useLogPreferences = create<{
  wrap: boolean
  times: boolean
  setLog: (change: { wrap?: boolean; times?: boolean }) => void
}>((set) => ({ wrap: false, times: false, setLog: set }))

interface ToggleProps {
  label: string
  on: boolean
  set: (on: boolean) => void
  icon: typeof Download
}

function Toggle({ label, on, set, icon: Icon }: ToggleProps) {
  return (
    <Button
      size="icon"
      look="ghost"
      aria-label={label}
      aria-pressed={on}
      title={label}
      className={on ? "bg-accent text-primary" : ""}
      onClick={() => set(!on)}
    >
      <Icon />
    </Button>
  )
}

const ROW = 20
const MOST_SHOWN = 200_000

interface Props {
  source: LogSource
  over: boolean
  ended?: () => void
  /** The search text and the follow mode, if several logs share them. */
  shared?: { search: string; follow: boolean; setFollow: (follow: boolean) => void }
  label?: string
  /** The text for a log without lines. */
  empty?: string
}

/** A log that can be followed and searched, and stays fast at any length. */
export function LogView({ source, over, ended, shared, label, empty }: Props) {
  const w = useTexts(runTexts)
  const c = useTexts(commonTexts)
  const { wrap, times, setLog } = useLogPreferences()
  const [full, setFull] = useState(false)
  const log = useLog(source, over, ended, times)
  const [ownFollow, setOwnFollow] = useState(true)
  const [ownTyped, setTyped] = useState("")
  const [follow, setFollow] = shared ? [shared.follow, shared.setFollow] : [ownFollow, setOwnFollow]
  const typed = shared?.search ?? ownTyped
  const wanted = useDeferredValue(typed.toLowerCase())
  const [at, setAt] = useState(0)
  const [opened, setOpened] = useState<{ number: number; text: string }>()
  const box = useRef<HTMLDivElement>(null)
  const matches = log.found
  const lines = useRef<HTMLDivElement>(null)
  const rows = useRows(box, log.count, ROW, wrap)
  const { show, first: putFirst } = rows

  // biome-ignore lint/correctness/useExhaustiveDependencies: after news, the lines on screen are requested again.
  useEffect(() => log.want(rows.from, rows.to), [log.want, rows.from, rows.to, log.news])
  useEffect(() => {
    if (follow && log.count && !wanted && !wrap) show(log.count - 1, "end")
  }, [follow, log.count, show, wanted, wrap])
  // Wrapped lines are higher than they count: as many of the last ones as there is room for.
  useLayoutEffect(() => {
    if (!wrap || !follow || wanted || !box.current || !lines.current) return
    if (rows.to < log.count) {
      putFirst(Math.max(0, log.count - Math.floor(box.current.clientHeight / ROW)))
      return
    }
    let left = box.current.clientHeight - ROW
    let fits = rows.to
    for (const line of [...lines.current.children].reverse()) {
      left -= (line as HTMLElement).offsetHeight
      if (left < 0) break
      fits -= 1
    }
    if (fits > rows.from && fits < rows.to) putFirst(fits)
  })
  useEffect(() => {
    if (!full) return
    const leave = (event: KeyboardEvent) => event.key === "Escape" && setFull(false)
    addEventListener("keydown", leave)
    return () => removeEventListener("keydown", leave)
  }, [full])
  useEffect(() => log.search(wanted), [log.search, wanted])
  const first = matches[0]
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the search text moves the view, not lines that arrive meanwhile.
  useEffect(() => {
    setAt(0)
    if (wanted && first !== undefined) show(first, "middle")
  }, [wanted, first === undefined])
  const jump = (to: number) => {
    if (!matches.length) return
    const place = (to + matches.length) % matches.length
    setAt(place)
    setFollow(false)
    show(matches[place] as number, "middle")
  }
  const current = matches[Math.min(at, matches.length - 1)]
  const shown: number[] = []
  for (let number = rows.from; number < rows.to; number++) shown.push(number)
  const digits = String(log.count).length

  return (
    <div className={classes("flex min-h-0 flex-col", full ? "fixed inset-0 z-40 bg-card" : "h-full")}>
      <div className={classes("flex flex-wrap items-center gap-2 border-b", shared ? "px-2" : "p-2")}>
        {!shared && (
          <Input
            type="search"
            className="h-8 max-w-44 min-w-24 flex-1"
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
            <span className="text-[13px] text-muted-foreground">
              {w("matches", { at: matches.length ? at + 1 : 0, n: matches.length })}
            </span>
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
        <Toggle label={w("wrap")} on={wrap} set={(wrap) => setLog({ wrap })} icon={WrapText} />
        {source.timed && <Toggle label={w("times")} on={times} set={(times) => setLog({ times })} icon={Clock} />}
        <Toggle label={w("fullScreen")} on={full} set={setFull} icon={full ? Minimize2 : Maximize2} />
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
        onScroll={rows.onScroll}
        onWheel={(event) => {
          if (event.deltaY < 0) setFollow(false)
          rows.onWheel(event)
        }}
        onKeyDown={(event) => ["ArrowUp", "PageUp", "Home"].includes(event.key) && setFollow(false)}
        onMouseDown={(event) => event.nativeEvent.offsetX > event.currentTarget.clientWidth && setFollow(false)}
      >
        {log.count === 0 && log.ended && (
          <p className="px-3 py-2 font-sans text-muted-foreground">{empty ?? w("logEmpty")}</p>
        )}
        <div className={classes("relative", !wrap && "min-w-max")} style={{ height: rows.height }}>
          <div
            ref={lines}
            className={classes("absolute top-0 left-0", wrap ? "w-full" : "min-w-full")}
            style={{ transform: `translateY(${rows.top}px)` }}
          >
            {shown.map((number) => {
              const text = log.line(number)
              return (
                <div
                  key={number}
                  data-line={number + 1}
                  className={classes(
                    "flex pr-4 hover:bg-muted/60",
                    wrap ? "min-h-5 items-start leading-5" : "h-5 items-center whitespace-pre",
                    wanted && text !== undefined && plain(text).toLowerCase().includes(wanted) && "bg-warning/12",
                    number === current && "bg-warning/25",
                  )}
                >
                  <span
                    aria-hidden
                    className="mr-3 inline-block shrink-0 text-right text-muted-foreground select-none"
                    style={{ width: `${Math.max(6, digits + 1)}ch` }}
                  >
                    {number + 1}
                  </span>
                  {text !== undefined &&
                    (wrap ? (
                      <span className="min-w-0 flex-1 break-all whitespace-pre-wrap">
                        <LogLine text={text} />
                      </span>
                    ) : (
                      <LogLine text={text} />
                    ))}
                  {text !== undefined && isLong(text) && (
                    <button
                      type="button"
                      className="ml-2 rounded bg-muted px-1.5 font-sans text-primary hover:underline"
                      onClick={() => void log.whole(number).then((text) => setOpened({ number, text }))}
                    >
                      {w("wholeLine")}
                    </button>
                  )}
                </div>
              )
            })}
          </div>
        </div>
      </div>
      <Dialog
        open={opened !== undefined}
        onClose={() => setOpened(undefined)}
        title={w("lineNumber", { n: (opened?.number ?? 0) + 1 })}
        wide
      >
        {opened && (
          <pre
            tabIndex={0}
            className="max-h-[65vh] overflow-auto rounded bg-muted p-3 font-mono text-xs break-all whitespace-pre-wrap"
          >
            <LogLine text={opened.text.slice(0, MOST_SHOWN)} whole />
            {opened.text.length > MOST_SHOWN && "…"}
          </pre>
        )}
      </Dialog>
    </div>
  )
}
