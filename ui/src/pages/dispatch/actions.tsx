/** The actions on a dispatched job. */
import { useNavigate } from "@tanstack/react-router"
import { ArrowDown, ArrowUp, Ban, CircleX, RotateCw, Trash2 } from "lucide-react"
import {
  cancelDispatchJob,
  type DispatchJob,
  deleteDispatchJob,
  resolveDispatchJob,
  restartDispatchJob,
  setDispatchPriority,
} from "@/api/dispatch"
import { type Action, Actions } from "@/components/actions"
import { note } from "@/components/toasts"
import { dispatchTexts } from "@/i18n/dispatch"
import { useTexts } from "@/i18n/translate"

const STEP = 10
const MOST = 100

/** `open`: as buttons instead of a menu. */
export function DispatchActions({ job, open }: { job: DispatchJob; open?: boolean }) {
  const w = useTexts(dispatchTexts)
  const navigate = useNavigate()
  const { id, name } = job
  const actions: Record<string, Action[]> = {
    resolve: [
      {
        label: w("again"),
        icon: <RotateCw />,
        confirm: { title: w("againTitle", { name }), lead: w("againHelp") },
        run: () => resolveDispatchJob(id, { how: "again", external_id: "" }),
      },
      {
        label: w("fail"),
        icon: <CircleX />,
        confirm: { title: w("failTitle", { name }), lead: w("failHelp") },
        run: () => resolveDispatchJob(id, { how: "fail", external_id: "" }),
      },
    ],
    restart: [
      {
        label: w("restart"),
        icon: <RotateCw />,
        primary: true,
        confirm: { title: w("restartTitle", { name }), lead: w("restartHelp") },
        run: () => restartDispatchJob(id),
      },
    ],
    edit: [
      {
        label: w("higher"),
        icon: <ArrowUp />,
        run: () => setDispatchPriority(id, Math.min(MOST, job.priority + STEP)),
      },
      {
        label: w("lower"),
        icon: <ArrowDown />,
        run: () => setDispatchPriority(id, Math.max(-MOST, job.priority - STEP)),
      },
    ],
    cancel: [
      {
        label: w("cancel"),
        icon: <Ban />,
        confirm: { title: w("cancelTitle", { name }), lead: w("cancelHelp"), danger: true },
        run: () => cancelDispatchJob(id),
      },
    ],
    delete: [
      {
        label: w("delete"),
        icon: <Trash2 />,
        danger: true,
        confirm: { title: w("deleteTitle", { name }), lead: w("deleteHelp") },
        run: async () => {
          await deleteDispatchJob(id)
          note(w("deleted", { name }))
          void navigate({ to: "/dispatch" })
        },
      },
    ],
  }
  const order = ["resolve", "restart", "edit", "cancel", "delete"]
  const offered = order.filter((action) => job.may.includes(action)).flatMap((action) => actions[action] ?? [])
  return <Actions name={name} actions={offered} open={open} />
}
