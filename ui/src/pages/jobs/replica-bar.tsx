import type { Job } from "@/api/jobs"
import { classes } from "@/lib/classes"
import { jobWords } from "@/words/jobs"
import { useWords } from "@/words/words"

const PARTS = [
  ["succeeded", "bg-fill-succeeded"],
  ["running", "bg-fill-running"],
  ["failed", "bg-fill-failed"],
] as const

/** How many replicas there are, and how they fare, as a bar. */
export function ReplicaBar({ job }: { job: Pick<Job, "replicas" | "running" | "succeeded" | "failed"> }) {
  const w = useWords(jobWords)
  const told = PARTS.filter(([name]) => job[name] > 0).map(([name]) => `${job[name]} ${w(name)}`)
  return (
    <div className="flex items-center gap-2" title={told.join(", ")}>
      <span className="min-w-6 text-right tabular-nums">{job.replicas}</span>
      <span aria-hidden className="flex h-1.5 w-16 overflow-hidden rounded-full bg-muted">
        {PARTS.map(([name, colour]) => (
          <span
            key={name}
            className={classes("h-full", colour)}
            style={{ width: `${(100 * job[name]) / Math.max(1, job.replicas)}%` }}
          />
        ))}
      </span>
      <span className="sr-only">{told.join(", ")}</span>
    </div>
  )
}
