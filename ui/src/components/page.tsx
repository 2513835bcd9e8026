import { type ReactNode, useEffect } from "react"
import { classes } from "@/lib/classes"

interface Props {
  title: string
  /** Beside the title, for example a badge. */
  aside?: ReactNode
  above?: ReactNode
  lead?: ReactNode
  actions?: ReactNode
  wide?: boolean
  children: ReactNode
}

/** A page with a heading, which is also the title of the browser tab. */
export function Page({ title, aside, above, lead, actions, wide, children }: Props) {
  useTitle(title)
  return (
    <div className={classes("mx-auto flex w-full flex-col gap-5 px-4 py-5 sm:px-6", wide ? "max-w-none" : "max-w-6xl")}>
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          {above && <div className="mb-1 text-[13px] text-muted-foreground">{above}</div>}
          <div className="flex flex-wrap items-center gap-2">
            <h1 className="break-words">{title}</h1>
            {aside}
          </div>
          {lead && <div className="mt-0.5 max-w-3xl text-muted-foreground">{lead}</div>}
        </div>
        {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Muster` : "Muster"
  }, [title])
}
