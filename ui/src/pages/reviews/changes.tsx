import { useMemo } from "react"
import type { WholeModuleVersion } from "@/api/modules"
import { Badge, type Tone } from "@/components/badge"
import { DiffLines } from "@/components/diff-lines"
import { type ModuleChange, moduleChanges } from "@/lib/module-changes"
import { moduleWords, reviewWords } from "@/words/modules"
import { useWords } from "@/words/words"
import { workflowWords } from "@/words/workflows"

const TONES: Record<ModuleChange["action"], Tone> = { added: "succeeded", removed: "failed", changed: "warning" }
const LABELS: Record<ModuleChange["field"], keyof typeof moduleWords> = {
  git_url: "gitUrl",
  git_ref: "gitRef",
  git_commit: "commit",
  dockerfile: "dockerfile",
  build_dir: "buildDir",
  readme_path: "readmePath",
  entrypoint: "entrypoint",
  env: "env",
  inputs: "inputs",
  outputs: "outputs",
  readme: "readme",
}

/** What a version brings against the one that is published; against nothing, if there is none. */
export function Changes({ before, after }: { before: WholeModuleVersion | undefined; after: WholeModuleVersion }) {
  const w = useWords(reviewWords)
  const m = useWords(moduleWords)
  const v = useWords(workflowWords)
  const changes = useMemo(() => moduleChanges(before, after), [before, after])
  const real = changes.filter(({ field }) => field !== "git_commit")
  return (
    <div className="flex flex-col gap-3">
      <p className="text-muted-foreground">
        {before === undefined
          ? w("firstVersion")
          : real.length
            ? `${w("changesSince", { n: before.number })} · ${w("changeCount", { n: changes.length })}`
            : w("noChanges", { n: before.number })}
      </p>
      <ul className="flex flex-col gap-2">
        {changes.map((change) => (
          <li key={`${change.field} ${change.name ?? ""}`} className="overflow-hidden rounded-lg border bg-card">
            <div className="flex flex-wrap items-center gap-2 px-3 py-2">
              <Badge tone={TONES[change.action]}>{v(change.action)}</Badge>
              <span className={change.name === undefined ? "font-medium" : "text-muted-foreground"}>
                {m(LABELS[change.field])}
              </span>
              {change.name !== undefined && (
                <span className="font-mono text-[13px] font-medium break-all">{change.name}</span>
              )}
            </div>
            <DiffLines before={change.before} after={change.after} />
          </li>
        ))}
      </ul>
    </div>
  )
}
