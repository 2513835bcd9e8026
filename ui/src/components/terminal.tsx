/** A terminal in a running Pod: a button that opens a dialog with a shell. Imported when the first one is opened. */

import { FitAddon } from "@xterm/addon-fit"
import { Terminal as Xterm } from "@xterm/xterm"
import "@xterm/xterm/css/xterm.css"
import { useEffect, useRef, useState } from "react"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { readEnd, type TerminalPlace, terminalUrl } from "@/lib/terminal"

export default function Terminal({ place }: { place: TerminalPlace }) {
  const w = useTexts(commonTexts)
  const box = useRef<HTMLDivElement>(null)
  const [ended, setEnded] = useState("")
  const url = terminalUrl(place)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another language must not open another shell.
  useEffect(() => {
    if (!box.current) return
    const terminal = new Xterm({ cursorBlink: true, fontSize: 13, scrollback: 5000, theme: { background: "#111318" } })
    const fit = new FitAddon()
    terminal.loadAddon(fit)
    terminal.open(box.current)
    const socket = new WebSocket(url)
    socket.binaryType = "arraybuffer"
    let last = ""
    const resize = () => {
      fit.fit()
      if (socket.readyState === WebSocket.OPEN)
        socket.send(JSON.stringify({ rows: terminal.rows, columns: terminal.cols }))
    }
    socket.onopen = () => {
      resize()
      terminal.focus()
    }
    socket.onmessage = ({ data }) => {
      if (typeof data !== "string") return terminal.write(new Uint8Array(data as ArrayBuffer))
      const end = readEnd(data)
      last = end?.error ?? (end?.exit === undefined ? "" : w("terminalEnded", { code: end.exit }))
    }
    socket.onclose = ({ reason }) => setEnded(last || reason || w("terminalClosed"))
    const encoder = new TextEncoder()
    terminal.onData((typed) => socket.readyState === WebSocket.OPEN && socket.send(encoder.encode(typed)))
    const watcher = new ResizeObserver(resize)
    watcher.observe(box.current)
    return () => {
      watcher.disconnect()
      socket.onclose = null
      socket.close()
      terminal.dispose()
    }
  }, [url])
  return (
    <div className="flex flex-col gap-2">
      <div
        ref={box}
        role="application"
        aria-label={w("terminalOf", { pod: place.pod })}
        className="h-[60vh] overflow-hidden rounded bg-[#111318] p-2"
      />
      {ended && (
        <p role="status" className="text-[13px] text-muted-foreground">
          {ended}
        </p>
      )}
    </div>
  )
}
