import { useNavigate } from "@tanstack/react-router"
import { EllipsisVertical, Pause, Play, Trash2 } from "lucide-react"
import { useState } from "react"
import { deleteJob, type Job, placeOf, resumeJob, suspendJob } from "@/api/jobs"
import { Button } from "@/components/button"
import { Confirm } from "@/components/dialog"
import { Menu, type MenuItem } from "@/components/menu"
import { note, noteError } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { jobTexts } from "@/i18n/jobs"
import { useTexts } from "@/i18n/translate"

/** `open`: as buttons instead of a menu. */
export function JobActions({ job, open }: { job: Job; open?: boolean }) {
  const w = useTexts(jobTexts)
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  const [asking, setAsking] = useState<"suspend" | "delete">()
  const place = placeOf(job)
  const items: Record<string, MenuItem> = {
    suspend: { label: w("suspend"), icon: <Pause />, onSelect: () => setAsking("suspend") },
    resume: { label: w("resume"), icon: <Play />, onSelect: () => void resumeJob(place).catch(noteError) },
    delete: { label: w("delete"), icon: <Trash2 />, danger: true, onSelect: () => setAsking("delete") },
  }
  const allowed = job.may.flatMap((action) => items[action] ?? [])
  const shown = open ? allowed.filter((item) => !item.danger) : []
  const hidden = open ? allowed.filter((item) => item.danger) : allowed
  return (
    <>
      {shown.map((item, index) => (
        <Button key={index} onClick={item.onSelect} look={item === items.resume ? "primary" : "plain"}>
          {item.icon}
          {item.label}
        </Button>
      ))}
      {hidden.length > 0 && (
        <Menu items={hidden}>
          <Button
            look={open ? "plain" : "ghost"}
            size="icon"
            className={open ? "size-9" : ""}
            aria-label={`${c("actions")}: ${job.name}`}
          >
            <EllipsisVertical />
          </Button>
        </Menu>
      )}
      <Confirm
        open={asking === "suspend"}
        onClose={() => setAsking(undefined)}
        title={w("suspendTitle", { name: job.name })}
        lead={w("suspendHelp")}
        action={w("suspend")}
        onConfirm={() => suspendJob(place)}
      />
      <Confirm
        open={asking === "delete"}
        onClose={() => setAsking(undefined)}
        title={w("deleteTitle", { name: job.name })}
        lead={w("deleteHelp")}
        action={w("delete")}
        danger
        onConfirm={async () => {
          await deleteJob(place)
          note(w("deleted", { name: job.name }))
          void navigate({ to: "/jobs" })
        }}
      />
    </>
  )
}
