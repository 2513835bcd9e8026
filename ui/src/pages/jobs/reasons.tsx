import { CircleAlert, Hourglass } from "lucide-react"
import type { JobReason, WholeJob } from "@/api/jobs"
import { type Language, usePreferences } from "@/app/preferences"
import { classes } from "@/lib/classes"
import { told } from "@/words/job-messages"
import { jobWords } from "@/words/jobs"
import { type Say, useWords } from "@/words/words"

/** Why it waits or has failed: one sentence, and more for those who want to know. */
export function Reasons({ job }: { job: WholeJob }) {
  const w = useWords(jobWords)
  const language = usePreferences((all) => all.language)
  const [first, ...more] = job.reasons
  if (!first) return null
  const failed = job.state === "failed"
  const title = failed
    ? w("whyFailed")
    : job.state === "waiting" || job.state === "suspended"
      ? w("whyWaiting")
      : w("whyNot")
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
        <p className="font-medium break-words">{reasonSentence(first, w, language)}</p>
        {more.length > 0 && (
          <ul className="mt-1 list-disc space-y-0.5 pl-4 text-[13px] break-words">
            {more.slice(0, 6).map((reason, index) => (
              <li key={index}>{reasonSentence(reason, w, language)}</li>
            ))}
          </ul>
        )}
      </div>
    </section>
  )
}

export function reasonSentence(reason: JobReason, w: Say<keyof typeof jobWords>, language: Language): string {
  const detail = told(reason.detail, language)
  if (reason.code === "suspended") return w("reasonSuspended")
  if (reason.code === "gang waits") return w("reasonGang", { detail })
  if (reason.code === "pod" || reason.code === "warning") return w("reasonPod", { about: reason.about, detail })
  return detail
}
