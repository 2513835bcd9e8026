import { useEffect, useState } from "react"
import { duration } from "@/lib/times"

/** How long it took, or takes so far. */
export function Took({
  started,
  finished,
}: {
  started: string | null | undefined
  finished: string | null | undefined
}) {
  const [now, setNow] = useState(Date.now)
  const goes = Boolean(started && !finished)
  useEffect(() => {
    if (!goes) return
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [goes])
  if (!started) return <span className="text-muted-foreground">–</span>
  const end = finished ? new Date(finished).getTime() : now
  return <span className="tabular-nums">{duration(end - new Date(started).getTime())}</span>
}
