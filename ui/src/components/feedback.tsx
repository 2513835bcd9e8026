/** What a page says while it loads, when a list is empty, and when something went wrong. */
import { Link } from "@tanstack/react-router"
import { CircleAlert, LoaderCircle } from "lucide-react"
import type { ComponentType, ReactNode } from "react"
import { asProblem, type Problem } from "@/api/problem"
import { usePreferences } from "@/app/preferences"
import { auditKindTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { serverMessage } from "@/i18n/server-messages"
import { shellTexts } from "@/i18n/shell"
import { type Texts, type Translate, translate, useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { Button } from "./button"

export function Loading({ className }: { className?: string }) {
  const w = useTexts(commonTexts)
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

const TITLES: Record<string, keyof typeof commonTexts> = {
  unreachable: "problemUnreachable",
  "not-found": "problemNotFound",
  forbidden: "problemForbidden",
  invalid: "problemInvalid",
  conflict: "problemConflict",
  "changed-meanwhile": "problemPrecondition",
  unauthenticated: "problemUnauthenticated",
  "too-many-requests": "problemTooMany",
  unavailable: "problemUnavailable",
}

export function problemTitle(problem: Problem, w: Translate<keyof typeof commonTexts>): string {
  const kind = problem.missingKind
  if (kind) {
    const known = (auditKindTexts as Texts)[kind]
    return w("kindNotFound", { kind: known ? translate(known, usePreferences.getState().language) : kind })
  }
  return w(TITLES[problem.kind] ?? "problemTitle")
}

/** The list that has the other objects of a kind. */
const LISTS: Record<string, { to: string; name: keyof typeof shellTexts }> = {
  run: { to: "/runs", name: "runs" },
  workflow: { to: "/workflows", name: "workflows" },
  version: { to: "/workflows", name: "workflows" },
  module: { to: "/modules", name: "modules" },
  review: { to: "/reviews", name: "reviews" },
  job: { to: "/jobs", name: "jobs" },
  Notebook: { to: "/notebooks", name: "notebooks" },
  Tensorboard: { to: "/tensorboards", name: "tensorboards" },
  volume: { to: "/volumes", name: "volumes" },
  "virtual cluster": { to: "/cluster", name: "cluster" },
  node: { to: "/cluster", name: "cluster" },
}

function WayBack({ kind }: { kind: string }) {
  const w = useTexts(commonTexts)
  const s = useTexts(shellTexts)
  const list = LISTS[kind.endsWith("Job") ? "job" : kind]
  return (
    <Button asChild size="small" className="mt-2">
      <Link to={list?.to ?? "/"}>{list ? w("backTo", { list: s(list.name).toLowerCase() }) : w("goHome")}</Link>
    </Button>
  )
}

/** An error, with every invalid field. `except`: fields that show their own errors. */
export function ProblemView({ error, retry, except = [] }: { error: unknown; retry?: () => void; except?: string[] }) {
  const w = useTexts(commonTexts)
  const language = usePreferences((all) => all.language)
  if (!error) return null
  const problem = asProblem(error)
  const fields = problem.fields.filter((each) => !except.includes(each.field))
  return (
    <div role="alert" className="flex gap-3 rounded-md border border-destructive/50 bg-destructive/8 p-3">
      <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-destructive" />
      <div className="min-w-0 flex-1">
        <p className="font-medium">{problemTitle(problem, w)}</p>
        {fields.length > 0 ? (
          <ul className="mt-1 list-disc space-y-0.5 pl-4 text-[13px]">
            {fields.map((each, index) => (
              <li key={index}>
                {each.field && <code className="mr-1 font-mono">{each.field}</code>}
                {serverMessage(each, language)}
              </li>
            ))}
          </ul>
        ) : (
          problem.detail && <p className="text-[13px] break-words text-muted-foreground">{problem.said}</p>
        )}
        {retry && problem.kind === "not-found" && <WayBack kind={problem.missingKind ?? ""} />}
        {retry && problem.kind !== "not-found" && (
          <Button size="small" className="mt-2" onClick={retry}>
            {w("retry")}
          </Button>
        )}
      </div>
    </div>
  )
}
