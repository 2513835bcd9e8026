/** The log viewer. */

import { ArrowDown, ArrowUp, Download } from "lucide-react"
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
  onScroll: () => void
  onWheel: (event: WheelEvent) => void
}

export function useRows(box: RefObject<HTMLElement | null>, count: number, row: number): Rows {
  const [seen, setSeen] = useState(600)
  const [offset, setOffset] = useState(0)
  const expected = useRef(-1)
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
      const { seen } = now.current.extent
      move(align === "end" ? (number + 1) * row - seen : (number + 0.5) * row - seen / 2)
    },
    [move, row],
  )
  const place = now.current.offset
  const { from, to } = rowsAt(place, extent)
  const bar = scrolledTo(place, extent)
  return { height: elementHeight(extent), from, to, top: bar - place + from * row, show, onScroll, onWheel }
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
  const log = useLog(source, over, ended)
  const [ownFollow, setOwnFollow] = useState(true)
  const [ownTyped, setTyped] = useState("")
  const [follow, setFollow] = shared ? [shared.follow, shared.setFollow] : [ownFollow, setOwnFollow]
  const typed = shared?.search ?? ownTyped
  const wanted = useDeferredValue(typed.toLowerCase())
  const [at, setAt] = useState(0)
  const [opened, setOpened] = useState<{ number: number; text: string }>()
  const box = useRef<HTMLDivElement>(null)
  const matches = log.found
  const rows = useRows(box, log.count, ROW)
  const { show } = rows

  // biome-ignore lint/correctness/useExhaustiveDependencies: after news, the lines on screen are requested again.
  useEffect(() => log.want(rows.from, rows.to), [log.want, rows.from, rows.to, log.news])
  useEffect(() => {
    if (follow && log.count && !wanted) show(log.count - 1, "end")
  }, [follow, log.count, show, wanted])
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
        <div className="relative min-w-max" style={{ height: rows.height }}>
          <div className="absolute top-0 left-0 min-w-full" style={{ transform: `translateY(${rows.top}px)` }}>
            {shown.map((number) => {
              const text = log.line(number)
              return (
                <div
                  key={number}
                  data-line={number + 1}
                  className={classes(
                    "flex h-5 items-center pr-4 whitespace-pre hover:bg-muted/60",
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
                  {text !== undefined && <LogLine text={text} />}
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
