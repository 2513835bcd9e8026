/** Why something waits or has failed, at the top of its page. */
import { CircleAlert, Hourglass } from "lucide-react"
import type { ReactNode } from "react"
import { classes } from "@/lib/classes"

interface Props {
  /** "Why it failed", "Why it waits". */
  title: string
  failed: boolean
  reason: ReactNode
  /** More about it. */
  children?: ReactNode
}

export function ReasonBanner({ title, failed, reason, children }: Props) {
  const Icon = failed ? CircleAlert : Hourglass
  return (
    <section
      aria-label={title}
      className={classes(
        "flex gap-3 rounded-lg border p-3",
        failed ? "border-failed/40 bg-failed/8" : "border-warning/40 bg-warning/8",
      )}
    >
      <Icon aria-hidden className={classes("mt-0.5 size-4 shrink-0", failed ? "text-failed" : "text-warning")} />
      <div className="min-w-0 flex-1">
        <p className="text-[13px] text-muted-foreground">{title}</p>
        <p className="font-medium break-words">{reason}</p>
        {children}
      </div>
    </section>
  )
}
