import { CircleAlert } from "lucide-react"
import { asProblem, type Problem } from "@/api/problem"
import { usePreferences } from "@/app/preferences"
import { commonWords } from "@/words/common"
import { problemSentence } from "@/words/graph-problems"
import { type Say, useWords } from "@/words/words"
import { Button } from "./button"

const TITLES: Record<string, keyof typeof commonWords> = {
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

export function problemTitle(problem: Problem, w: Say<keyof typeof commonWords>): string {
  return w(TITLES[problem.kind] ?? "problemTitle")
}

/** What went wrong, with every field at fault. `except` leaves out fields that say it themselves. */
export function ProblemView({ error, retry, except = [] }: { error: unknown; retry?: () => void; except?: string[] }) {
  const w = useWords(commonWords)
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
                {problemSentence(each, language)}
              </li>
            ))}
          </ul>
        ) : (
          problem.detail && <p className="text-[13px] break-words text-muted-foreground">{problem.said}</p>
        )}
        {retry && (
          <Button size="small" className="mt-2" onClick={retry}>
            {w("retry")}
          </Button>
        )}
      </div>
    </div>
  )
}
