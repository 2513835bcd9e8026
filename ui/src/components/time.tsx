/** Times and durations. */

import { useEffect, useState } from "react"
import { usePreferences } from "@/app/preferences"
import { ago, duration, moment } from "@/lib/times"

/** A relative time; the tooltip has the exact one. */
export function Time({ at }: { at: string | null | undefined }) {
  const language = usePreferences((all) => all.language)
  if (!at) return <span className="text-muted-foreground">–</span>
  return (
    <time dateTime={at} title={moment(at, language)} className="whitespace-nowrap">
      {ago(at, Date.now(), language)}
    </time>
  )
}

/** How long something took, or has taken so far. */
export function Duration({
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
