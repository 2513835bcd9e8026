/** Logs: finished ones, and those that are still written. */
import { useCallback, useEffect, useRef, useState } from "react"
import type { FromWorker, ToWorker } from "./log-worker"

/** The addresses of a log: as one text, and as server-sent events while it is written. */
export interface LogSource {
  text: string
  events: string
  /** The file name for downloads. */
  name: string
  /** The same with the time in front of each line, if the server knows it. */
  timed?: { text: string; events: string }
}

export interface Log {
  /** The number of lines. */
  count: number
  ended: boolean
  lost: boolean
  /** Changes whenever there may be more to show. */
  news: number
  /** A line by its number from 0, or undefined until it has arrived after `want`. Very long lines are cut off. */
  line: (number: number) => string | undefined
  want: (from: number, to: number) => void
  /** The complete line. */
  whole: (number: number) => Promise<string>
  search: (text: string) => void
  /** The numbers of the lines that match; more arrive until `searched`. */
  found: number[]
  searched: boolean
}

export function runLog({
  run,
  node,
  attempt,
  pod,
}: {
  run: string
  node: string
  attempt?: number
  pod?: string
}): LogSource {
  const query = new URLSearchParams()
  if (attempt) query.set("attempt", String(attempt))
  if (pod) query.set("pod", pod)
  const said = query.toString() && `?${query}`
  const text = `/api/v1/runs/${encodeURIComponent(run)}/nodes/${encodeURIComponent(node)}/log`
  return {
    text: text + said,
    events: `${text}/events?${new URLSearchParams([...query, ["bunches", "true"]])}`,
    name: `${node}.log`,
    timed: timedLog(text, query),
  }
}

export function timedLog(text: string, query = new URLSearchParams()): { text: string; events: string } {
  return { text: `${text}?${new URLSearchParams([...query, ["times", "true"]])}`, events: `${text}/events?${query}` }
}

const PAGE = 200
const PAGES = 40
const NOTHING = { count: 0, ended: false, lost: false, news: 0 }

/** `over`: the log will not change any more. `ended` is called when a followed log has ended. */
export function useLog(source: LogSource, over: boolean, ended?: () => void, times = false): Log {
  const end = useRef(ended)
  end.current = ended
  const began = useRef(over)
  if (!over) began.current = false // a log that goes on is followed again; one that was followed to its end is complete
  const follow = !began.current
  const worker = useRef<Worker>(undefined)
  const pages = useRef(new Map<number, { lines: string[]; whole: boolean; stale: boolean }>())
  const asked = useRef(new Set<number>())
  const waiting = useRef(new Map<number, (lines: string[]) => void>())
  const numbers = useRef(0)
  const searched = useRef(0)
  const hits = useRef<number[]>([])
  const [seen, setSeen] = useState(NOTHING)
  const [results, setResults] = useState<{ found: number[]; searched: boolean }>({ found: [], searched: true })
  const [, redraw] = useState(0)

  const timed = times ? source.timed : undefined
  const address = follow ? (timed ?? source).events : (timed ?? source).text
  const withTimes = timed !== undefined
  useEffect(() => {
    const mine = new Worker(new URL("./log-worker.ts", import.meta.url), { type: "module" })
    worker.current = mine
    pages.current.clear()
    asked.current.clear()
    hits.current = []
    setSeen(NOTHING)
    setResults({ found: [], searched: true })
    mine.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.say === "count") {
        // Pages that were not complete are requested again and shown as they were until then.
        for (const page of pages.current.values()) page.stale ||= !page.whole
        asked.current.clear()
        setSeen((before) => ({ ...data, news: before.news + 1 }))
        if (data.ended && follow) end.current?.()
      } else if (data.say === "lines") {
        const alone = waiting.current.get(data.number)
        if (alone) {
          waiting.current.delete(data.number)
          alone(data.lines)
          return
        }
        const page = data.from / PAGE
        asked.current.delete(page)
        pages.current.delete(page)
        pages.current.set(page, { lines: data.lines, whole: data.whole, stale: false })
        for (const old of pages.current.keys()) {
          if (pages.current.size <= PAGES) break
          pages.current.delete(old)
        }
        redraw((count) => count + 1)
      } else if (data.number === searched.current) {
        for (const line of data.lines) hits.current.push(line)
        setResults({ found: hits.current, searched: data.whole })
      }
    }
    const open: ToWorker = { ask: "open", address: new URL(address, location.href).href, follow, times: withTimes }
    mine.postMessage(open)
    return () => mine.terminate()
  }, [address, follow, withTimes])

  const line = useCallback((number: number) => pages.current.get(Math.floor(number / PAGE))?.lines[number % PAGE], [])
  const want = useCallback((from: number, to: number) => {
    for (let page = Math.floor(from / PAGE); page * PAGE < to; page++) {
      if (asked.current.has(page) || pages.current.get(page)?.stale === false) continue
      asked.current.add(page)
      numbers.current += 1
      send(worker.current, { ask: "lines", from: page * PAGE, to: (page + 1) * PAGE, number: numbers.current })
    }
  }, [])
  const whole = useCallback(
    (number: number) =>
      new Promise<string>((resolve) => {
        numbers.current += 1
        const mine = numbers.current
        waiting.current.set(mine, ([text]) => resolve(text ?? ""))
        send(worker.current, { ask: "lines", from: number, to: number + 1, number: mine })
      }),
    [],
  )
  const search = useCallback((text: string) => {
    numbers.current += 1
    searched.current = numbers.current
    hits.current = []
    setResults({ found: [], searched: !text })
    send(worker.current, { ask: "search", text, number: searched.current })
  }, [])
  return { ...seen, line, want, whole, search, ...results }
}

function send(worker: Worker | undefined, message: ToWorker): void {
  worker?.postMessage(message)
}
