/** The actions on a run, wherever it came from. */
import { useNavigate } from "@tanstack/react-router"
import { Archive, CirclePause, CirclePlay, CircleStop, Copy, Repeat, RotateCcw, Trash2 } from "lucide-react"
import { type AnyRun, type ArgoPlace, changeWorkflow, deleteWorkflow, resubmitWorkflow } from "@/api/argo"
import { reloadAfter } from "@/api/client"
import { deleteJob, resumeJob, suspendJob } from "@/api/jobs"
import { act, remove as removePipeline } from "@/api/pipelines"
import { copyRun, deleteRun, type Run, retryRun, stopRun } from "@/api/runs"
import { type Action, Actions } from "@/components/actions"
import { note } from "@/components/toasts"
import { jobTexts } from "@/i18n/jobs"
import { runTexts } from "@/i18n/runs"
import { useTexts } from "@/i18n/translate"

interface Props {
  run: Pick<Run, "id" | "name" | "state"> & { stopping?: string | boolean | null }
  /** What the user may do. */
  may: readonly string[]
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
      if (open) void navigate({ to: "/runs" })
    },
  }
  const allow = (action: string, possible: boolean) => possible && may.includes(action)
  const actions = [
    allow("stop", isActive) ? stop : undefined,
    allow("retry", run.state === "failed" || run.state === "stopped") ? retry : undefined,
    allow("copy", run.state !== "waiting" && run.state !== "running") ? resubmit : undefined,
    allow("copy", true) ? copy : undefined,
    allow("delete", true) ? remove : undefined,
  ]
  return <Actions name={name} actions={actions} open={open} />
}

/** The actions on one line of the list of everything that ran: those that the user may do now. */
export function AnyRunActions({ run }: { run: AnyRun }) {
  if (run.origin === "argo" || run.origin === "cron") return <ArgoActions workflow={run} />
  if (run.origin === "pipeline") return <PipelineRunActions run={run} />
  if (run.origin === "job") return <TrainingJobActions run={run} />
  if (run.state === "suspended") return null
  return <RunActions run={{ ...run, state: run.state }} may={run.may} />
}

interface ArgoProps {
  workflow: ArgoPlace & { may: readonly string[] }
  open?: boolean
}

export function ArgoActions({ workflow, open }: ArgoProps) {
  const w = useTexts(runTexts)
  const navigate = useNavigate()
  const { namespace, name } = workflow
  const place = { namespace, name }
  const actions: Record<string, Action> = {
    stop: {
      label: w("stop"),
      icon: <CircleStop />,
      confirm: { title: w("stopTitle", { name }), lead: w("stopHelp"), danger: true },
      run: () => changeWorkflow(place, "stop"),
    },
    suspend: {
      label: w("suspend"),
      icon: <CirclePause />,
      title: w("suspendHelp"),
      run: () => changeWorkflow(place, "suspend"),
    },
    resume: { label: w("resume"), icon: <CirclePlay />, primary: true, run: () => changeWorkflow(place, "resume") },
    retry: {
      label: w("retry"),
      icon: <RotateCcw />,
      primary: true,
      title: w("retryLogsHelp"),
      run: () => changeWorkflow(place, "retry"),
    },
    copy: {
      label: w("resubmit"),
      icon: <Repeat />,
      title: w("resubmitArgoHelp"),
      run: async () => {
        const again = await resubmitWorkflow(place)
        note(w("created", { name: again.name }))
        void navigate({ to: "/runs/argo/$namespace/$name", params: { namespace, name: again.name } })
      },
    },
    delete: {
      label: w("delete"),
      icon: <Trash2 />,
      danger: true,
      confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
      run: async () => {
        await deleteWorkflow(place)
        note(w("deleted", { name }))
        if (open) void navigate({ to: "/runs" })
      },
    },
  }
  return <Actions name={name} actions={workflow.may.map((action) => actions[action])} open={open} />
}

function PipelineRunActions({ run: { id, name, may } }: { run: AnyRun }) {
  const w = useTexts(runTexts)
  const navigate = useNavigate()
  const actions: Record<string, Action> = {
    stop: {
      label: w("stop"),
      icon: <CircleStop />,
      confirm: { title: w("stopTitle", { name }), lead: w("stopHelp"), danger: true },
      run: () => listed(act("runs", id, "terminate")),
    },
    retry: { label: w("retry"), icon: <RotateCcw />, run: () => listed(act("runs", id, "retry")) },
    copy: {
      label: w("clone"),
      icon: <Copy />,
      run: () => navigate({ to: "/pipelines/runs/new", search: { clone: id } }),
    },
    archive: { label: w("archive"), icon: <Archive />, run: () => listed(act("runs", id, "archive")) },
    delete: {
      label: w("delete"),
      icon: <Trash2 />,
      danger: true,
      confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
      run: async () => {
        await listed(removePipeline("runs", id))
        note(w("deleted", { name }))
      },
    },
  }
  return <Actions name={name} actions={may.map((action) => actions[action])} />
}

function TrainingJobActions({ run: { namespace, kind, name, may } }: { run: AnyRun }) {
  const w = useTexts(runTexts)
  const j = useTexts(jobTexts)
  const place = { namespace, kind, name }
  const actions: Record<string, Action> = {
    suspend: {
      label: w("suspend"),
      icon: <CirclePause />,
      confirm: { title: j("suspendTitle", { name }), lead: j("suspendHelp") },
      run: () => listed(suspendJob(place)),
    },
    resume: { label: w("resume"), icon: <CirclePlay />, run: () => listed(resumeJob(place)) },
    delete: {
      label: w("delete"),
      icon: <Trash2 />,
      danger: true,
      confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
      run: async () => {
        await listed(deleteJob(place))
        note(w("deleted", { name }))
      },
    },
  }
  return <Actions name={name} actions={may.map((action) => actions[action])} />
}

/** Loads the list of everything that ran again after a change. */
function listed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["all runs"])
}
