/** The actions on a run. */
import { useNavigate } from "@tanstack/react-router"
import { CircleStop, Copy, Repeat, RotateCcw, Trash2 } from "lucide-react"
import { copyRun, deleteRun, type Run, retryRun, stopRun } from "@/api/runs"
import { type Action, Actions } from "@/components/actions"
import { note } from "@/components/toasts"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"

interface Props {
  run: Run
  /** What the user may do; everything if it is not known yet, since the server checks again. */
  may?: string[]
  /** As buttons instead of a menu. */
  open?: boolean
}

export function RunActions({ run, may, open }: Props) {
  const w = useTexts(runTexts)
  const navigate = useNavigate()
  const { name } = run
  const isActive = (run.state === "waiting" || run.state === "running") && !run.stopping
  const stop: Action = {
    label: w("stop"),
    icon: <CircleStop />,
    confirm: { title: w("stopTitle", { name }), lead: w("stopHelp"), danger: true },
    run: () => stopRun(run.id),
  }
  const retry: Action = {
    label: w("retry"),
    icon: <RotateCcw />,
    primary: true,
    title: w("retryHelp"),
    run: () => retryRun(run.id),
  }
  const resubmit: Action = {
    label: w("resubmit"),
    icon: <Repeat />,
    title: w("resubmitHelp"),
    run: async () => {
      const again = await copyRun(run.id, { name: "", version: "", parameters: {} })
      note(w("created", { name: again.name }))
      void navigate({ to: "/runs/$run", params: { run: again.id } })
    },
  }
  const copy: Action = {
    label: w("copy"),
    icon: <Copy />,
    run: () => navigate({ to: "/runs/new", search: { copy: run.id } }),
  }
  const remove: Action = {
    label: w("delete"),
    icon: <Trash2 />,
    danger: true,
    confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
    run: async () => {
      await deleteRun(run.id)
      note(w("deleted", { name }))
      void navigate({ to: "/runs" })
    },
  }
  const allow = (action: string, possible: boolean) => possible && (!may || may.includes(action))
  const actions = [
    allow("stop", isActive) ? stop : undefined,
    allow("retry", run.state === "failed" || run.state === "stopped") ? retry : undefined,
    allow("copy", run.state !== "waiting" && run.state !== "running") ? resubmit : undefined,
    allow("copy", true) ? copy : undefined,
    allow("delete", true) ? remove : undefined,
  ]
  return <Actions name={name} actions={actions} open={open} />
}
