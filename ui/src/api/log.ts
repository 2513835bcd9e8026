/** A log as it is written. A million lines are fine: they are kept as they are, and told of once a frame. */
import { useEffect, useRef, useState } from "react"

/** Where a log is: as one text, and as server-sent events while it is written. */
export interface LogSource {
  text: string
  events: string
  /** What it is called as a file. */
  name: string
}

export interface Log {
  lines: string[]
  /** How many there are: `lines` itself stays the same array. */
  count: number
  ended: boolean
  lost: boolean
}

export function runLog({ run, node, attempt, pod }: { run: string; node: string; attempt?: number; pod?: string }): LogSource {
  const query = new URLSearchParams()
  if (attempt) query.set("attempt", String(attempt))
  if (pod) query.set("pod", pod)
  const said = query.toString() && `?${query}`
  const text = `/api/v1/runs/${encodeURIComponent(run)}/nodes/${encodeURIComponent(node)}/log`
  return { text: text + said, events: `${text}/events${said}`, name: `${node}.log` }
}

/** What is over will not change any more. `ended` is told when what was followed has come to its end. */
export function useLog(source: LogSource, over: boolean, ended?: () => void): Log {
  const address = over ? source.text : source.events
  const end = useRef(ended)
  end.current = ended
  const lines = useRef<string[]>([])
  const [seen, setSeen] = useState({ count: 0, ended: false, lost: false })
  useEffect(() => {
    lines.current = []
    setSeen({ count: 0, ended: false, lost: false })
    let frame = 0
    const tell = (what: Partial<typeof seen> = {}) => {
      if (Object.keys(what).length) setSeen((before) => ({ ...before, count: lines.current.length, ...what }))
      else
        frame ||= requestAnimationFrame(() => {
          frame = 0
          setSeen((before) => ({ ...before, count: lines.current.length }))
        })
    }
    const stop = over ? whole(address, lines.current, tell) : followed(address, lines.current, tell, () => end.current?.())
    return () => {
      stop()
      cancelAnimationFrame(frame)
    }
  }, [address, over])
  return { lines: lines.current, ...seen }
}

type Tell = (what?: { ended?: boolean; lost?: boolean }) => void

/** Events are lines, or pieces of the text with any number of them. */
function followed(address: string, lines: string[], tell: Tell, ended: () => void): () => void {
  const source = new EventSource(address)
  let rest = ""
  source.onopen = () => tell({ lost: false })
  source.onerror = () => tell({ lost: true })
  source.addEventListener("line", (event) => {
    lines.push((JSON.parse(event.data as string) as { text: string }).text)
    tell()
  })
  source.onmessage = (event) => {
    const pieces = (rest + (JSON.parse(event.data as string) as { text: string }).text).split("\n")
    rest = pieces.pop() ?? ""
    for (const piece of pieces) lines.push(piece)
    tell()
  }
  source.addEventListener("end", () => {
    source.close()
    if (rest) lines.push(rest)
    tell({ ended: true })
    ended()
  })
  return () => source.close()
}

/** What will not change any more comes as one text, which is a good deal faster. */
function whole(address: string, lines: string[], tell: Tell): () => void {
  const asked = new AbortController()
  void (async () => {
    try {
      const response = await fetch(address, { signal: asked.signal })
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ""
      while (reader && response.ok) {
        const { done, value } = await reader.read()
        if (done) break
        const pieces = (rest + value).split("\n")
        rest = pieces.pop() ?? ""
        for (const piece of pieces) lines.push(piece)
        tell()
      }
      if (rest) lines.push(rest)
      tell({ ended: true, lost: !response.ok })
    } catch {
      if (!asked.signal.aborted) tell({ lost: true })
    }
  })()
  return () => asked.abort()
}
