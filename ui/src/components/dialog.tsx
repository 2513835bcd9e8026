/** Dialogs: plain, to confirm, with a form, and before a page with unsaved changes is left. */

import { useBlocker } from "@tanstack/react-router"
import { X } from "lucide-react"
import { Dialog as Radix } from "radix-ui"
import { type FormEvent, type ReactNode, useId, useState } from "react"
import { asProblem, withoutField } from "@/api/problem"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { Button } from "./button"
import { ProblemView } from "./feedback"
import { RestoredNote, useTypedForm } from "./typed-form"

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
  const w = useTexts(commonTexts)
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

/** Asks before an action, and shows the error if the server refuses it. */
export function Confirm({ open, onClose, title, lead, action, danger, onConfirm }: ConfirmProps) {
  const w = useTexts(commonTexts)
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

interface FormDialogProps {
  title: string
  lead?: ReactNode
  action: string
  wide?: boolean
  /** Fields that show their own errors. */
  fields: string[]
  onClose: () => void
  onSubmit: (form: FormData) => Promise<unknown>
  children: (fault: (field: string) => string | undefined) => ReactNode
  /** Shown beside the buttons. */
  more?: ReactNode
}

export function FormDialog({ title, lead, action, wide, fields, onClose, onSubmit, children, more }: FormDialogProps) {
  const w = useTexts(commonTexts)
  const id = useId()
  const typed = useTypedForm(title)
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const close = () => {
    typed.forget()
    onClose()
  }
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await onSubmit(new FormData(event.currentTarget))
      typed.forget()
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  const problem = error ? asProblem(error) : undefined
  const elsewhere =
    problem && (problem.fields.length === 0 || problem.fields.some((each) => !fields.includes(each.field)))
  return (
    <Dialog
      open
      onClose={close}
      title={title}
      lead={lead}
      wide={wide}
      actions={
        <>
          {more && <div className="mr-auto flex flex-wrap gap-2">{more}</div>}
          <Button onClick={close}>{w("cancel")}</Button>
          <Button type="submit" form={id} look="primary" disabled={busy}>
            {action}
          </Button>
        </>
      }
    >
      <RestoredNote typed={typed} />
      <form
        id={id}
        ref={typed.form}
        className="flex flex-col gap-4"
        onSubmit={submit}
        onInput={({ target }) =>
          error !== undefined && setError(withoutField(error, (target as HTMLInputElement).name))
        }
      >
        {children((field) => problem?.of(field))}
      </form>
      {elsewhere && <ProblemView error={error} except={fields} />}
    </Dialog>
  )
}

/** The trimmed text of a form field. */
export function text(form: FormData, name: string): string {
  return String(form.get(name) ?? "").trim()
}

/** Asks before a page with unsaved changes is left. */
export function LeaveGuard({ changed, help }: { changed: boolean; help?: string }) {
  const w = useTexts(editorTexts)
  const blocker = useBlocker({
    // Nothing may keep a user whose session has expired from signing in again.
    shouldBlockFn: ({ current, next }) => changed && current.pathname !== next.pathname && next.pathname !== "/sign-in",
    enableBeforeUnload: changed,
    withResolver: true,
  })
  return (
    <Dialog
      open={blocker.status === "blocked"}
      onClose={() => blocker.reset?.()}
      title={w("leaveTitle")}
      actions={
        <>
          <Button onClick={() => blocker.reset?.()}>{w("stay")}</Button>
          <Button look="danger" onClick={() => blocker.proceed?.()}>
            {w("leave")}
          </Button>
        </>
      }
    >
      {help ?? w("leaveHelp")}
    </Dialog>
  )
}
