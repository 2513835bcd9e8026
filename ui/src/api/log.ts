/** The log of a node as it is written. A million lines are fine: they are kept as they are, and told of once a frame. */
import { useEffect, useRef, useState } from "react"

export interface LogPlace {
  run: string
  node: string
  attempt?: number
  pod?: string
}

export interface Log {
  lines: string[]
  /** How many there are: `lines` itself stays the same array. */
  count: number
  ended: boolean
  lost: boolean
}

export function logAddress({ run, node, attempt, pod }: LogPlace, events = false): string {
  const query = new URLSearchParams()
  if (attempt) query.set("attempt", String(attempt))
  if (pod) query.set("pod", pod)
  const said = query.toString()
  return `/api/v1/runs/${encodeURIComponent(run)}/nodes/${encodeURIComponent(node)}/log${events ? "/events" : ""}${said && `?${said}`}`
}

export function useLog(place: LogPlace, over: boolean): Log {
  const address = logAddress(place, !over)
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
    const stop = over ? whole(address, lines.current, tell) : followed(address, lines.current, tell)
    return () => {
      stop()
      cancelAnimationFrame(frame)
    }
  }, [address, over])
  return { lines: lines.current, ...seen }
}

type Tell = (what?: { ended?: boolean; lost?: boolean }) => void

function followed(address: string, lines: string[], tell: Tell): () => void {
  const source = new EventSource(address)
  source.onopen = () => tell({ lost: false })
  source.onerror = () => tell({ lost: true })
  source.addEventListener("line", (event) => {
    lines.push((JSON.parse(event.data as string) as { text: string }).text)
    tell()
  })
  source.addEventListener("end", () => {
    source.close()
    tell({ ended: true })
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
