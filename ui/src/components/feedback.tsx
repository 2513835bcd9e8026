/** States of a page that has nothing to show (yet). */
import { LoaderCircle } from "lucide-react"
import type { ComponentType, ReactNode } from "react"
import { classes } from "@/lib/classes"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

export function Loading({ className }: { className?: string }) {
  const w = useWords(commonWords)
  return (
    <div
      role="status"
      className={classes("flex items-center justify-center gap-2 p-10 text-muted-foreground", className)}
    >
      <LoaderCircle aria-hidden className="size-4 animate-spin" />
      {w("loading")}
    </div>
  )
}

interface EmptyProps {
  icon?: ComponentType<{ className?: string }>
  title: string
  /** What to do next. */
  children?: ReactNode
  actions?: ReactNode
}

export function Empty({ icon: Icon, title, children, actions }: EmptyProps) {
  return (
    <div className="flex flex-col items-center gap-2 rounded-lg border border-dashed px-6 py-12 text-center">
      {Icon && <Icon className="size-8 text-muted-foreground" aria-hidden />}
      <p className="font-medium">{title}</p>
      {children && <div className="max-w-md text-muted-foreground">{children}</div>}
      {actions && <div className="mt-2 flex flex-wrap justify-center gap-2">{actions}</div>}
    </div>
  )
}
