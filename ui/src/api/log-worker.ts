/** Loads, stores and searches a log in a worker, so that the page is never blocked. */
import { LogStore } from "@/lib/log-store"

export type ToWorker =
  | { ask: "open"; address: string; follow: boolean; times: boolean }
  | { ask: "lines"; from: number; to: number; number: number }
  | { ask: "search"; text: string; number: number }

export type FromWorker =
  | { say: "count"; count: number; ended: boolean; lost: boolean }
  /** `whole`: none of these lines can change any more. */
  | { say: "lines"; from: number; lines: string[]; number: number; whole: boolean }
  /** More matches; `whole` when the whole log has been searched. */
  | { say: "found"; lines: number[]; number: number; whole: boolean }

const TELL_MILLISECONDS = 60
const SENT_CHARACTERS = 4000

const store = new LogStore()
const state = { ended: false, lost: false }
let telling: ReturnType<typeof setTimeout> | undefined
let searching: { text: string; number: number; next: number; busy: boolean } | undefined

const say = (message: FromWorker) => self.postMessage(message)

function tell(): void {
  if (telling) return
  telling = setTimeout(() => {
    telling = undefined
    say({ say: "count", count: store.count, ...state })
    void search()
  }, TELL_MILLISECONDS)
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.ask === "open") void (data.follow ? followed(data.address, data.times) : whole(data.address))
  else if (data.ask === "lines") void lines(data.from, data.to, data.number)
  else {
    searching = data.text ? { text: data.text, number: data.number, next: 0, busy: false } : undefined
    void search()
  }
}

/** Sends only the beginning of a very long line, unless it is the only line requested. */
async function lines(from: number, to: number, number: number): Promise<void> {
  const found = await store.lines(from, to)
  const sent = to - from === 1 ? found : found.map(shortened)
  say({ say: "lines", from, lines: sent, number, whole: to < store.count })
}

function shortened(line: string): string {
  if (line.length <= SENT_CHARACTERS) return line
  // Of an overwritten line, only the last text counts.
  const last = line.lastIndexOf("\r", line.length - 2)
  return line.slice(last + 1, last + 1 + SENT_CHARACTERS + 1)
}

/** Searches the part that has not been searched yet. */
async function search(): Promise<void> {
  const mine = searching
  if (!mine || mine.busy) return
  mine.busy = true
  for await (const { found, next } of store.search(mine.text, mine.next)) {
    if (searching !== mine) return
    mine.next = next
    if (found.length) say({ say: "found", lines: found, number: mine.number, whole: false })
    await new Promise((resolve) => setTimeout(resolve)) // lets other messages in
  }
  mine.busy = false
  if (searching === mine) say({ say: "found", lines: [], number: mine.number, whole: true })
}

/** An event holds a line with its time, several lines, or a piece of text with any number of them. */
function followed(address: string, times: boolean): void {
  const source = new EventSource(address)
  const text = (event: MessageEvent) => {
    const { text, time } = JSON.parse(event.data as string) as { text: string; time?: string }
    return times && time ? `${time} ${text}` : text
  }
  const take = (piece: string) => {
    store.append(piece)
    tell()
  }
  source.onopen = () => {
    state.lost = false
    tell()
  }
  source.onerror = () => {
    state.lost = true
    tell()
  }
  source.addEventListener("line", (event) => take(`${text(event)}\n`))
  source.addEventListener("lines", (event) => take(text(event)))
  source.onmessage = (event) => take(text(event))
  source.addEventListener("end", () => {
    source.close()
    state.ended = true
    tell()
  })
}

/** A finished log is loaded as one text, which is much faster. */
async function whole(address: string): Promise<void> {
  try {
    const response = await fetch(address)
    const reader = response.ok ? response.body?.getReader() : undefined
    while (reader) {
      const { done, value } = await reader.read()
      if (done) break
      store.append(value)
      tell()
    }
    state.ended = true
    state.lost = !response.ok
  } catch {
    state.lost = true
  }
  tell()
}
