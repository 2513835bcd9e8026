import { X } from "lucide-react"
import { Dialog as Radix } from "radix-ui"
import { type ReactNode, useState } from "react"
import { classes } from "@/lib/classes"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { Button } from "./button"
import { ProblemView } from "./problem-view"

interface Props {
  open: boolean
  onClose: () => void
  title: string
  lead?: ReactNode
  wide?: boolean
  actions?: ReactNode
  children?: ReactNode
}

export function Dialog({ open, onClose, title, lead, wide, actions, children }: Props) {
  const w = useWords(commonWords)
  return (
    <Radix.Root open={open} onOpenChange={(now) => !now && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/45" />
        <Radix.Content
          aria-describedby={undefined}
          className={classes(
            "fixed top-[8vh] left-1/2 z-50 flex max-h-[84vh] w-[calc(100vw-2rem)] -translate-x-1/2 flex-col rounded-lg border bg-card shadow-xl",
            wide ? "max-w-4xl" : "max-w-lg",
          )}
        >
          <div className="flex items-start justify-between gap-3 px-5 pt-4">
            <div>
              <Radix.Title className="text-base font-semibold">{title}</Radix.Title>
              {lead && <p className="text-muted-foreground">{lead}</p>}
            </div>
            <Radix.Close asChild>
              <Button look="ghost" size="icon" aria-label={w("close")}>
                <X />
              </Button>
            </Radix.Close>
          </div>
          <div className="flex flex-col gap-4 overflow-y-auto px-5 py-4">{children}</div>
          {actions && <div className="flex flex-wrap justify-end gap-2 border-t px-5 py-3">{actions}</div>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

interface ConfirmProps {
  open: boolean
  onClose: () => void
  title: string
  lead?: ReactNode
  action: string
  danger?: boolean
  onConfirm: () => unknown
}

/** Asks before something that cannot be undone. What the server says against it is shown here. */
export function Confirm({ open, onClose, title, lead, action, danger, onConfirm }: ConfirmProps) {
  const w = useWords(commonWords)
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const close = () => {
    setError(undefined)
    onClose()
  }
  const confirm = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await onConfirm()
      close()
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      open={open}
      onClose={close}
      title={title}
      actions={
        <>
          <Button onClick={close}>{w("cancel")}</Button>
          <Button look={danger ? "danger" : "primary"} disabled={busy} onClick={confirm}>
            {action}
          </Button>
        </>
      }
    >
      {lead && <div>{lead}</div>}
      <ProblemView error={error} />
    </Dialog>
  )
}
