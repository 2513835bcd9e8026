import { useNavigate } from "@tanstack/react-router"
import { CircleStop, Copy, EllipsisVertical, RotateCcw, Trash2 } from "lucide-react"
import { useState } from "react"
import { deleteRun, type Run, retryRun, stopRun } from "@/api/runs"
import { Button } from "@/components/button"
import { Confirm } from "@/components/dialog"
import { Menu, type MenuItem } from "@/components/menu"
import { note, noteError } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
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
  const c = useTexts(commonTexts)
  const navigate = useNavigate()
  const [asking, setAsking] = useState<"stop" | "delete">()
  const goes = run.state === "waiting" || run.state === "running"
  const allowed = (action: string) => !may || may.includes(action)
  const stop: MenuItem | undefined =
    goes && allowed("stop") && !run.stopping
      ? { label: w("stop"), icon: <CircleStop />, onSelect: () => setAsking("stop") }
      : undefined
  const retry: MenuItem | undefined =
    (run.state === "failed" || run.state === "stopped") && allowed("retry")
      ? { label: w("retry"), icon: <RotateCcw />, onSelect: () => void retryRun(run.id).catch(noteError) }
      : undefined
  const copy: MenuItem | undefined = allowed("copy")
    ? { label: w("copy"), icon: <Copy />, onSelect: () => void navigate({ to: "/runs/new", search: { copy: run.id } }) }
    : undefined
  const drop: MenuItem | undefined = allowed("delete")
    ? { label: w("delete"), icon: <Trash2 />, danger: true, onSelect: () => setAsking("delete") }
    : undefined
  const items = [stop, retry, copy, drop].filter((item) => item !== undefined)
  const shown = open ? items.filter((item) => item !== drop) : []
  const hidden = open ? (drop ? [drop] : []) : items
  return (
    <>
      {shown.map((item, index) => (
        <Button
          key={index}
          onClick={item.onSelect}
          look={item === retry ? "primary" : "plain"}
          title={item === retry ? w("retryHelp") : undefined}
        >
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
            aria-label={`${c("actions")}: ${run.name}`}
          >
            <EllipsisVertical />
          </Button>
        </Menu>
      )}
      <Confirm
        open={asking === "stop"}
        onClose={() => setAsking(undefined)}
        title={w("stopTitle", { name: run.name })}
        lead={w("stopHelp")}
        action={w("stop")}
        danger
        onConfirm={() => stopRun(run.id)}
      />
      <Confirm
        open={asking === "delete"}
        onClose={() => setAsking(undefined)}
        title={w("deleteTitle", { name: run.name })}
        lead={w("deleteHelp")}
        action={w("delete")}
        danger
        onConfirm={async () => {
          await deleteRun(run.id)
          note(w("deleted", { name: run.name }))
          void navigate({ to: "/runs" })
        }}
      />
    </>
  )
}
