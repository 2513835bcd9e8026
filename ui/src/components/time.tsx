import { usePreferences } from "@/app/preferences"
import { ago, moment } from "@/lib/times"

/** A moment as people say it; the exact one when pointed at. */
export function Time({ at }: { at: string | null | undefined }) {
  const language = usePreferences((all) => all.language)
  if (!at) return <span className="text-muted-foreground">–</span>
  return (
    <time dateTime={at} title={moment(at, language)} className="whitespace-nowrap">
      {ago(at, Date.now(), language)}
    </time>
  )
}
