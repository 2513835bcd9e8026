import { classes } from "@/lib/classes"

interface Props {
  label: string
  value: number
  max: number
  /** The value as text: "3 of 8". */
  text: string
  /** The colour when it is nearly full: a warning, unless that is good. */
  full?: "warning" | "running"
  className?: string
}

/** How much of something is in use. Blue, and amber when it is nearly full. */
export function Meter({ label, value, max, text, full = "warning", className }: Props) {
  const part = max > 0 ? Math.min(1, value / max) : value > 0 ? 1 : 0
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(max, value, 1)}
      aria-valuenow={value}
      aria-valuetext={text}
      className={classes("h-1.5 w-full overflow-hidden rounded-full bg-muted", className)}
    >
      <svg
        aria-hidden
        width="100%"
        height="100%"
        preserveAspectRatio="none"
        className={part > 0.9 && full === "warning" ? "text-warning" : "text-fill-running"}
      >
        <rect width={`${part * 100}%`} height="100%" fill="currentColor" />
      </svg>
    </div>
  )
}
