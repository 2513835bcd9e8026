import type { ReactNode } from "react"
import { classes } from "@/lib/classes"

const TONES = {
  plain: "bg-muted text-muted-foreground",
  running: "bg-running/12 text-running",
  succeeded: "bg-succeeded/12 text-succeeded",
  failed: "bg-failed/12 text-failed",
  waiting: "bg-waiting/12 text-muted-foreground",
  warning: "bg-warning/12 text-warning",
  primary: "bg-accent text-primary",
} as const

export type Tone = keyof typeof TONES

export function Badge({
  tone = "plain",
  children,
  className,
}: {
  tone?: Tone
  children: ReactNode
  className?: string
}) {
  return (
    <span
      className={classes(
        "inline-flex items-center gap-1 rounded-full px-2 py-px text-xs font-medium whitespace-nowrap [&_svg]:size-3",
        TONES[tone],
        className,
      )}
    >
      {children}
    </span>
  )
}
