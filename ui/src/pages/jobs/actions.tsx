/** The actions on a job. */
import { useNavigate } from "@tanstack/react-router"
import { Pause, Play, Trash2 } from "lucide-react"
import { deleteJob, type Job, placeOf, resumeJob, suspendJob } from "@/api/jobs"
import { type Action, Actions } from "@/components/actions"
import { note } from "@/components/toasts"
import { jobTexts } from "@/i18n/jobs"
import { useTexts } from "@/i18n/translate"

/** `open`: as buttons instead of a menu. */
export function JobActions({ job, open }: { job: Job; open?: boolean }) {
  const w = useTexts(jobTexts)
  const navigate = useNavigate()
  const { name } = job
  const place = placeOf(job)
  const actions: Record<string, Action> = {
    suspend: {
      label: w("suspend"),
      icon: <Pause />,
      confirm: { title: w("suspendTitle", { name }), lead: w("suspendHelp") },
      run: () => suspendJob(place),
    },
    resume: { label: w("resume"), icon: <Play />, primary: true, run: () => resumeJob(place) },
    delete: {
      label: w("delete"),
      icon: <Trash2 />,
      danger: true,
      confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
      run: async () => {
        await deleteJob(place)
        note(w("deleted", { name }))
        void navigate({ to: "/jobs" })
      },
    },
  }
  return <Actions name={name} actions={job.may.map((action) => actions[action])} open={open} />
}
